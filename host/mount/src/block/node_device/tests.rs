//! The search, on trees of plain files and links that have the layout of udev and the kernel.

mod multipath;
mod privileged;

use super::*;
use crate::plan::device::check;
use rustix::fs::{CWD, FileType, mknodat};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::Path;
use wasmount_core::device_fact::DeviceFact::{ById, ByPath, Nguid, Partition, Serial, Wwid};
use wasmount_core::document::DeviceGrant;

/// A node with an NVMe namespace, a SCSI disk of two partitions with a twin, and a virtio disk.
struct Made {
    folder: tempfile::TempDir,
    tree: DeviceTree,
}

impl Made {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tree = DeviceTree::new(folder.path().join("dev"), folder.path().join("sys"));
        for path in [
            "dev/disk/by-id",
            "dev/disk/by-path",
            "sys/class/block",
            "sys/dev/block",
        ] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        let made = Self { folder, tree };
        made.device("vda", "254:0", &[("serial", "virtio-serial")]);
        made.device(
            "nvme0n1",
            "259:0",
            &[
                ("wwid", "eui.0025\n"),
                ("nguid", "00000000-0000-0000-0025-000000000001\n"),
                ("device/serial", "S1                  \n"),
            ],
        );
        // A path of the device, hidden by native NVMe multipath.
        made.device("nvme0c0n1", "", &[("wwid", "eui.0025\n")]);
        let page = "\0\u{0}\0\u{8}disk-A  ";
        made.device(
            "sda",
            "8:0",
            &[("device/wwid", "naa.6001\n"), ("device/vpd_pg80", page)],
        );
        made.device("sda/sda1", "8:1", &[("partition", "1\n")]);
        made.device("sda/sda2", "8:2", &[("partition", "2\n")]);
        made.device(
            "sdb",
            "8:16",
            &[
                ("device/wwid", "naa.6001\n"),
                ("device/vpd_pg80", "\0\0\0\u{1}B"),
            ],
        );
        made.device("cciss!c0d0", "104:0", &[]);
        made.link("by-id/scsi-0Acme_A", "../../sda");
        made.link("by-id/scsi-0Acme_A-part1", "../../sda1");
        made.link("by-id/lvm-pv-uuid-x", "../../sda");
        made.link("by-id/cciss-1", "../../cciss/c0d0");
        made.link("by-path/pci-0", "../../sda");
        made.link("by-path/pci-1", "../../sdb");
        made
    }

    fn device(&self, place: &str, number: &str, attributes: &[(&str, &str)]) {
        let sys = self.folder.path().join("sys");
        let name = place.rsplit('/').next().unwrap();
        let folder = sys.join("devices/block").join(place);
        fs::create_dir_all(&folder).unwrap();
        symlink(&folder, sys.join("class/block").join(name)).unwrap();
        if !number.is_empty() {
            symlink(&folder, sys.join("dev/block").join(number)).unwrap();
            fs::write(folder.join("dev"), format!("{number}\n")).unwrap();
        }
        for (attribute, value) in attributes {
            fs::create_dir_all(folder.join(attribute).parent().unwrap()).unwrap();
            fs::write(folder.join(attribute), value).unwrap();
        }
    }

    fn link(&self, name: &str, target: &str) {
        symlink(target, self.folder.path().join("dev/disk").join(name)).unwrap();
    }

    fn find(&self, facts: &[(DeviceFact, &str)]) -> Vec<String> {
        let found = search(&self.tree, &requested(facts)).unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    fn open(&self, facts: &[(DeviceFact, &str)], grant: &[(DeviceFact, &str)]) -> MountError {
        open_in(&self.tree, &asked(facts, grant, 0), true).unwrap_err()
    }
}

fn requested(facts: &[(DeviceFact, &str)]) -> RequestedFacts {
    let owned = |(fact, value): &(DeviceFact, &str)| (*fact, (*value).to_owned());
    facts.iter().map(owned).collect()
}

fn granting(facts: &[(DeviceFact, &str)]) -> Grants {
    let grant = DeviceGrant {
        facts: requested(facts),
        rescan: true,
        mount_options: Vec::new(),
    };
    Grants {
        devices: vec![grant],
        ..Grants::default()
    }
}

/// The checked plan of these facts, with one grant.
fn asked(
    facts: &[(DeviceFact, &str)],
    grant: &[(DeviceFact, &str)],
    wait_ms: u32,
) -> CheckedDevice {
    asked_each(&[facts], false, grant, wait_ms)
}

/// The same of several alternatives.
fn asked_each(
    alternatives: &[&[(DeviceFact, &str)]],
    rescan: bool,
    grant: &[(DeviceFact, &str)],
    wait_ms: u32,
) -> CheckedDevice {
    let owned = |(fact, value): &(DeviceFact, &str)| (fact.name().to_owned(), (*value).to_owned());
    let alternatives: Vec<Vec<_>> = alternatives
        .iter()
        .map(|facts| facts.iter().map(owned).collect())
        .collect();
    let grants = granting(grant);
    check("any-device", &alternatives, rescan, wait_ms, &grants).unwrap()
}

#[test]
fn a_device_is_found_by_each_kind_of_fact() {
    let made = Made::new();
    for (facts, name) in [
        (&[(ById, "scsi-0Acme_A")][..], "/dev/sda"),
        (&[(ById, "scsi-0Acme_A-part1")], "/dev/sda1"),
        (&[(ById, "cciss-1")], "/dev/cciss/c0d0"),
        (&[(ByPath, "pci-1")], "/dev/sdb"),
        (&[(Serial, "virtio-serial")], "/dev/vda"),
        (&[(Serial, "S1")], "/dev/nvme0n1"),
        (&[(Serial, "disk-A")], "/dev/sda"),
        (&[(Wwid, "eui.0025")], "/dev/nvme0n1"),
        (
            &[(Nguid, "00000000-0000-0000-0025-000000000001")],
            "/dev/nvme0n1",
        ),
        (&[(Wwid, "naa.6001"), (ByPath, "pci-1")], "/dev/sdb"),
        (
            &[
                (ById, "scsi-0Acme_A"),
                (ByPath, "pci-0"),
                (Serial, "disk-A"),
            ],
            "/dev/sda",
        ),
        (&[(Serial, "disk-A"), (Partition, "2")], "/dev/sda2"),
        (&[(ById, "scsi-0Acme_A"), (Partition, "2")], "/dev/sda2"),
        (
            &[(ById, "scsi-0Acme_A-part1"), (Partition, "1")],
            "/dev/sda1",
        ),
        (
            &[(ById, "scsi-0Acme_A-part1"), (Serial, "disk-A")],
            "/dev/sda1",
        ),
    ] {
        assert_eq!(made.find(facts), [name], "{facts:?}");
    }
}

#[test]
fn a_device_of_which_one_fact_is_another_is_not_found() {
    let made = Made::new();
    made.link("by-id/dangling", "../../sdz");
    fs::write(made.folder.path().join("dev/disk/by-id/file"), "").unwrap();
    for facts in [
        &[(ById, "scsi-0Acme_B")][..],
        &[(ById, "dangling")],
        &[(ById, "file")],
        &[(ById, "pci-0")],
        &[(Serial, "disk")],
        &[(Serial, "naa.6001")],
        &[(Wwid, "naa.600")],
        &[(Wwid, "eui.0025"), (Serial, "disk-A")],
        &[(ById, "scsi-0Acme_A"), (ByPath, "pci-1")],
        &[(ById, "scsi-0Acme_A"), (Serial, "B")],
        &[(ById, "scsi-0Acme_A"), (Partition, "3")],
        &[(ById, "scsi-0Acme_A-part1"), (Partition, "2")],
        &[(Serial, "B"), (Partition, "1")],
    ] {
        assert_eq!(made.find(facts), [""; 0], "{facts:?}");
    }
}

#[test]
fn a_link_that_leads_out_of_dev_is_refused() {
    let made = Made::new();
    let outside = made.folder.path().join("sda");
    for (name, target) in [
        ("by-id/up", Path::new("../../../sda")),
        ("by-id/absolute", &outside),
        ("by-id/hidden", Path::new("../../x/../../sda")),
        ("by-id/dev", Path::new("../..")),
    ] {
        made.link(name, target.to_str().unwrap());
        let name = name.rsplit('/').next().unwrap();
        let error = made.open(&[(ById, name)], &[(ById, name)]);
        assert!(matches!(error, MountError::Unusable { .. }), "{error}");
        assert!(
            error.to_string().contains("it leads out of /dev"),
            "{error}"
        );
    }
    let absolute = made.folder.path().join("dev/sda");
    made.link("by-id/inside", absolute.to_str().unwrap());
    assert_eq!(made.find(&[(ById, "inside")]), ["/dev/sda"]);
}

#[test]
fn two_paths_to_one_disk_are_not_chosen_between() {
    let error = Made::new().open(&[(Wwid, "naa.6001")], &[(Wwid, "naa.*")]);
    assert_eq!(
        error.to_string(),
        "the block device with wwid `naa.6001` cannot be used: 2 devices have them (/dev/sda, /dev/sdb); if they are paths to one disk, name the `by-id` of its multipath device (`dm-uuid-mpath-..`), else another fact as well"
    );
}

#[test]
fn a_missing_device_is_reported_with_dangling_links() {
    let made = Made::new();
    made.link("by-id/late", "../../sdz");
    let not_found = |facts, told: &str| {
        let error = made.open(facts, &[(ById, "*"), (Serial, "*")]);
        assert!(matches!(error, MountError::NotFound { .. }), "{error}");
        assert!(error.to_string().contains(told), "{error}");
    };
    not_found(
        &[(Serial, "S9")],
        "(waited 0 ms: no device has all of them)",
    );
    not_found(&[(ById, "none")], "(waited 0 ms: there is no such by-id)");
    not_found(
        &[(ById, "late")],
        "by-id leads to /dev/sdz, which is not there",
    );
    not_found(
        &[(ById, "scsi-0Acme_A"), (Serial, "B")],
        "(waited 0 ms: no device has all of them)",
    );
}

#[test]
fn only_what_a_grant_covers_is_opened() {
    let made = Made::new();
    for grant in [
        &[(ById, "scsi-0Other_*")][..],
        &[(ById, "lvm-pv-*")],
        &[(ById, "*-part1")],
    ] {
        let error = made.open(&[(ByPath, "pci-0")], grant);
        assert!(matches!(error, MountError::NotGranted { .. }), "{error}");
    }
    // The device is granted; only its node is missing in this tree.
    for grant in [
        &[(ById, "scsi-0Acme_*")][..],
        &[(Serial, "disk-A"), (Wwid, "naa.*")],
    ] {
        let error = made.open(&[(ByPath, "pci-0")], grant);
        assert!(matches!(error, MountError::NotFound { .. }), "{error}");
    }
}

#[test]
fn a_grant_of_a_disk_covers_its_partitions() {
    let made = Made::new();
    let partition = &[(ById, "scsi-0Acme_A"), (Partition, "1")];
    let error = made.open(partition, &[(Serial, "disk-A")]);
    assert!(matches!(error, MountError::NotFound { .. }), "{error}");
    let disk = &[(ById, "scsi-0Acme_A")];
    for grant in [
        &[(ById, "scsi-0Acme_A-part1")][..],
        &[(Serial, "disk-A"), (Partition, "1")],
    ] {
        let error = made.open(disk, grant);
        assert!(matches!(error, MountError::NotGranted { .. }), "{error}");
    }
}

#[test]
fn only_small_whole_devices_of_hardware_are_listed() {
    let made = Made::new();
    let (small, large) = ("131072\n", "2097152\n");
    made.device("sr0", "11:0", &[("size", small)]);
    made.device("vdb", "254:16", &[("size", "2097151\n")]);
    made.device("vdc", "254:32", &[("size", large)]);
    made.device(
        "vdc/vdc1",
        "254:33",
        &[("size", small), ("partition", "1\n")],
    );
    made.device("sr1", "11:1", &[("size", "0\n")]);
    made.device("../virtual/block/loop0", "7:0", &[("size", small)]);
    made.device("../virtual/block/dm-0", "253:0", &[("size", small)]);
    let listed = hardware::Hardware(made.tree).smaller_than(1 << 30);
    let names: Vec<_> = listed.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["/dev/sr0", "/dev/vdb"]);
    assert_eq!(listed[0].number.to_string(), "11:0");
}

#[test]
fn something_else_in_place_of_the_node_is_refused() {
    let made = Made::new();
    let dev = made.folder.path().join("dev");
    fs::write(dev.join("sda"), "").unwrap();
    let error = made.open(&[(ByPath, "pci-0")], &[(Serial, "disk-A")]);
    assert!(
        error.to_string().contains("it is not a block device"),
        "{error}"
    );
    fs::remove_file(dev.join("sda")).unwrap();
    symlink("vda", dev.join("sda")).unwrap();
    let error = made.open(&[(ByPath, "pci-0")], &[(Serial, "disk-A")]);
    assert!(matches!(error, MountError::Kernel { .. }), "{error}");
}

#[test]
fn a_missing_device_is_rescanned_for_at_first_and_halfway() {
    let made = Made::new();
    // A pipe keeps all that is written to it.
    let host = made.folder.path().join("sys/class/scsi_host/host0");
    fs::create_dir_all(&host).unwrap();
    let scan = host.join("scan");
    mknodat(CWD, &scan, FileType::Fifo, 0o600.into(), 0).unwrap();
    let mut options = fs::OpenOptions::new();
    let mut pipe = options.read(true).write(true).open(&scan).unwrap();
    let alternatives: &[&[_]] = &[&[(ById, "none")], &[(Serial, "S9")], &[(ById, "no")]];
    let not_found = |rescan| {
        let device = asked_each(alternatives, rescan, &[(Serial, "*"), (Wwid, "a")], 20);
        open_in(&made.tree, &device, true).unwrap_err().to_string()
    };
    let described = "a block device with by-id `none`, or with serial `S9`, or with by-id `no`";
    let reasons = "there is no such by-id; no device has all of them";
    assert_eq!(
        not_found(false),
        format!("{described} (waited 20 ms: {reasons}) does not exist")
    );
    assert_eq!(
        not_found(true),
        format!(
            "{described} (waited 20 ms: {reasons}; 1 of 1 SCSI hosts looked for new disks) does not exist"
        )
    );
    pipe.write_all(b"|").unwrap();
    let mut written = [0; 11];
    pipe.read_exact(&mut written).unwrap();
    assert_eq!(&written, b"- - -- - -|");
}
