//! Maps of dm-multipath among the devices.

use super::*;

#[test]
fn a_multipath_map_stands_for_its_paths() {
    let made = Made::new();
    let facts = [(Wwid, "naa.6001")];
    assert_eq!(made.find(&facts), ["/dev/sda", "/dev/sdb"]);
    let map = [
        ("dm/uuid", "mpath-36001\n"),
        ("slaves/sda", ""),
        ("slaves/sdb", ""),
    ];
    made.device("dm-0", "253:0", &map);
    assert_eq!(made.find(&facts), ["/dev/dm-0"]);
    // A grant of the identity covers it.
    let map = KernelName::of_node("dm-0");
    let has = |wwid: &str| made.tree.facts_of(&map).contains(&(Wwid, wwid.to_owned()));
    assert!(has("naa.6001") && !has("naa.6002"));
    // A disk that it has no path to stands for itself.
    made.device("sdc", "8:32", &[("device/wwid", "naa.6001\n")]);
    assert_eq!(made.find(&facts), ["/dev/dm-0", "/dev/sdc"]);
}

#[test]
fn a_device_on_others_that_is_no_map_stands_for_none() {
    let made = Made::new();
    for (name, number, uuid) in [
        ("dm-0", "253:0", "LVM-36001"),
        ("dm-1", "253:1", "mpath-36002"),
        ("dm-2", "253:2", "part1-mpath-36001"),
    ] {
        let attributes = [("dm/uuid", uuid), ("slaves/sda", ""), ("slaves/sdb", "")];
        made.device(name, number, &attributes);
    }
    assert_eq!(made.find(&[(Wwid, "naa.6001")]), ["/dev/sda", "/dev/sdb"]);
}
