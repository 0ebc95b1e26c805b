//! Tests of maps as sysfs shows them, on trees of plain files.

use super::*;
use std::fs;

/// A node's sysfs with block devices.
struct Made(tempfile::TempDir);

impl Made {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn sys(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.sys().join("class/block").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A device of device mapper on others.
    fn mapped(&self, device: &str, uuid: &str, paths: &[&str]) {
        self.file(&format!("{device}/dm/uuid"), &format!("{uuid}\n"));
        self.file(&format!("{device}/dm/name"), "mpatha\n");
        self.file(&format!("{device}/size"), "100\n");
        for path in paths {
            self.file(&format!("{device}/slaves/{path}"), "");
            self.file(&format!("{path}/holders/{device}"), "");
        }
    }

    fn path(&self, device: &str, wwid: &str, size: &str) {
        self.file(&format!("{device}/device/wwid"), &format!("{wwid}\n"));
        self.file(&format!("{device}/size"), size);
    }
}

#[test]
fn a_map_is_found_by_the_identity_of_its_disk() {
    let made = Made::new();
    made.mapped("dm-0", "LVM-x", &["sda"]);
    made.mapped("dm-1", "mpath-36001", &["sdb", "sdc"]);
    made.mapped("dm-2", "part1-mpath-36002", &["dm-3"]);
    made.path("sdb", "naa.6001", "100");
    made.path("sdc", "naa.6001", "100");
    let map = Map::of_disk(made.sys(), "naa.6001").unwrap();
    assert_eq!(map.device, "dm-1");
    assert_eq!(map.name().as_deref(), Some("mpatha"));
    assert_eq!(map.wwid().as_deref(), Some("naa.6001"));
    let mut paths = map.paths();
    paths.sort();
    assert_eq!(paths, ["sdb", "sdc"]);
    assert_eq!(Map::on(made.sys(), "sdb"), Some(map.clone()));
    fs::remove_dir_all(made.sys().join("class/block/sdc")).unwrap();
    assert_eq!(map.paths(), ["sdb"]);
    assert!(map.exists());
    // Neither LVM nor a partition is a map, and an identity is the whole one.
    for wwid in ["naa.600", "naa.6002", "eui.6001", "6001"] {
        assert_eq!(Map::of_disk(made.sys(), wwid), None, "{wwid}");
    }
    assert_eq!(Map::on(made.sys(), "sda"), None);
    made.mapped("dm-1", "mpath-36009", &[]);
    assert!(!map.exists());
}

#[test]
fn a_map_has_no_identity_that_its_paths_lack() {
    let made = Made::new();
    made.mapped("dm-0", "mpath-36001", &["sda"]);
    let map = Map::named(made.sys(), "dm-0").unwrap();
    assert_eq!(map.wwid(), None);
    made.path("sda", "naa.6002", "100");
    assert_eq!(map.wwid(), None);
    made.path("sda", "naa.6001", "100");
    assert_eq!(map.wwid().as_deref(), Some("naa.6001"));
}

#[test]
fn a_map_has_its_size_if_all_paths_have_it() {
    let made = Made::new();
    made.mapped("dm-0", "mpath-36001", &["sda", "sdb"]);
    made.path("sda", "naa.6001", "100\n");
    made.path("sdb", "naa.6001", "200\n");
    let map = Map::named(made.sys(), "dm-0").unwrap();
    assert!(!map.has_size_of_paths());
    made.path("sdb", "naa.6001", "100\n");
    assert!(map.has_size_of_paths());
}

#[test]
fn only_partitions_of_the_map_itself_are_its_partitions() {
    let made = Made::new();
    made.mapped("dm-0", "mpath-36001", &["sda"]);
    let map = Map::named(made.sys(), "dm-0").unwrap();
    assert_eq!(map.partitions(), Some(Vec::new()));
    made.mapped("dm-1", "part1-mpath-36001", &["dm-0"]);
    assert_eq!(map.partitions(), Some(vec!["dm-1".to_owned()]));
    made.mapped("dm-2", "CRYPT-LUKS2-x", &["dm-0"]);
    assert_eq!(map.partitions(), None);
}

#[test]
fn identifiers_are_those_of_scsi_id() {
    for (wwid, expected) in [
        ("naa.6001405a", Some("36001405a")),
        ("eui.0025385b", Some("20025385b")),
        ("t10.ATA     DISK  7/x", Some("1ATA_DISK_7_x")),
        ("uuid.1", None),
        ("6001405a", None),
    ] {
        assert_eq!(identifier(wwid).as_deref(), expected, "{wwid}");
    }
}
