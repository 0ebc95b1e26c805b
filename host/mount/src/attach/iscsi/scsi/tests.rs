//! Tests of sessions and disks as sysfs shows them, on trees of plain files.

use super::*;
use crate::plan::attach::{Attachment, IscsiDisk};
use std::os::unix::fs::symlink;
use wasmount_core::plan::attached::IscsiPath as Way;
use wasmount_core::plan::{Iscsi, Source};

const TARGET: &str = "iqn.2026-01.example:a";

/// A node's sysfs, made of plain files.
struct Made {
    folder: tempfile::TempDir,
    scsi: Scsi,
}

impl Made {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scsi = Scsi::new(folder.path().to_owned(), &driver("acme.test"));
        Self { folder, scsi }
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.folder.path().join(path)).unwrap()
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.folder.path().join(target), path).unwrap();
    }

    fn session(&self, number: u32, interface: &str, portal: [&str; 2], state: &str) {
        let name = format!("session{number}");
        let host = number + 10;
        let real = format!("devices/platform/host{host}/{name}/iscsi_session/{name}");
        for (attribute, value) in [
            ("ifacename", interface),
            ("targetname", TARGET),
            ("target_id", "0"),
            ("state", state),
        ] {
            self.file(&format!("{real}/{attribute}"), &format!("{value}\n"));
        }
        self.link(&format!("class/iscsi_session/{name}"), &real);
        let connection = format!("class/iscsi_connection/connection{number}:0");
        let [address, port] = portal;
        self.file(&format!("{connection}/persistent_address"), address);
        self.file(&format!("{connection}/persistent_port"), port);
        self.file(&format!("class/scsi_host/host{host}/scan"), "");
    }

    fn disk(&self, name: &str, wwid: &str) {
        let folder = format!("class/scsi_device/{name}/device");
        self.file(&format!("{folder}/wwid"), wwid);
        self.file(&format!("{folder}/block/sda/dev"), "8:0\n");
        self.file(&format!("{folder}/state"), RUNNING);
        self.file(&format!("{folder}/delete"), "");
    }
}

fn driver(name: &str) -> DriverName {
    DriverName::parse(name).unwrap()
}

fn path(portal: &str, lun: u16) -> IscsiPath {
    let source = Source::Iscsi(Iscsi {
        paths: vec![Way {
            portal: portal.to_owned(),
            target: TARGET.to_owned(),
            lun,
        }],
        wwid: "naa.1".to_owned(),
        minimum_paths: 1,
        wait_ms: 0,
        chap: None,
        mutual_chap: None,
    });
    match Attachment::of(&source) {
        Ok(Some(Attachment::Iscsi(IscsiDisk { paths, .. }))) => paths[0].clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_is_found_by_driver_target_and_portal() {
    let made = Made::new();
    let own = made.scsi.interface.as_str();
    made.session(1, "default", ["10.0.0.1", "3260"], "LOGGED_IN");
    made.session(2, own, ["10.0.0.2", "3260"], "LOGGED_IN");
    made.session(3, own, ["fd00::1", "3261"], "FAILED");
    let found = |portal: &str| made.scsi.session(&path(portal, 1));
    // The administrator's session is not the driver's.
    assert_eq!(found("10.0.0.1:3260"), None);
    assert_eq!(found("10.0.0.2:3261"), None);
    let session = found("10.0.0.2:3260").unwrap();
    assert_eq!((session.id, session.host), (2, 12));
    assert!(session.is_connected());
    assert!(!found("[fd00::1]:3261").unwrap().is_connected());
    let mut portals: Vec<_> = made.scsi.paths().iter().map(|it| it.portal).collect();
    portals.sort();
    let expected = ["10.0.0.2:3260", "[fd00::1]:3261"].map(|it| it.parse().unwrap());
    assert_eq!(portals, expected);
}

#[test]
fn a_disk_is_scanned_identified_and_deleted_at_its_place() {
    let made = Made::new();
    let own = made.scsi.interface.as_str();
    made.session(2, own, ["10.0.0.2", "3260"], "LOGGED_IN");
    let path = path("10.0.0.2:3260", 7);
    let session = made.scsi.session(&path).unwrap();
    let disk = session.disk(path.lun);
    made.scsi.scan(&disk).unwrap();
    assert_eq!(made.read("class/scsi_host/host12/scan"), "0 0 7");
    assert!(!made.scsi.has(&disk) && made.scsi.wwid(&disk).is_none());
    made.disk("12:0:0:7", "naa.1\n");
    made.disk("12:0:0:0", "naa.2\n");
    made.disk("13:0:0:0", "naa.3\n");
    assert_eq!(made.scsi.wwid(&disk).as_deref(), Some("naa.1"));
    let number = DeviceNumber { major: 8, minor: 0 };
    assert_eq!(made.scsi.number(&disk), Some(number));
    assert_eq!(made.scsi.disks(&session).len(), 2);
    made.scsi.set_offline(&disk).unwrap();
    assert!(!made.scsi.is_running(&disk));
    made.scsi.delete(&disk).unwrap();
    let deleted = made.read("class/scsi_device/12:0:0:7/device/delete");
    assert_eq!(deleted, "1");
}

#[test]
fn a_path_is_trusted_if_it_runs_and_has_the_identity() {
    let made = Made::new();
    let has = |state: &str, wwid: &str| {
        made.file("class/block/sda/device/state", state);
        made.file("class/block/sda/device/wwid", wwid);
        made.file("class/block/sda/device/rescan", "");
        made.scsi.leads_to("sda", "naa.1")
    };
    assert!(has("running\n", "naa.1\n"));
    assert_eq!(made.read("class/block/sda/device/rescan"), "1");
    assert!(!has("running\n", "naa.2\n") && !has("transport-offline\n", "naa.1\n"));
    // It would hang.
    assert_eq!(made.read("class/block/sda/device/rescan"), "");
    assert!(!made.scsi.leads_to("sdb", "naa.1"));
}

#[test]
fn a_disk_that_is_gone_is_deleted_and_cannot_be_rescanned() {
    let made = Made::new();
    let disk = Disk::parse("12:0:0:1").unwrap();
    assert_eq!(made.scsi.delete(&disk), Ok(()));
    let refused = made.scsi.rescan(&disk).unwrap_err().to_string();
    assert!(refused.contains("12:0:0:1/device/rescan"), "{refused}");
}

#[test]
fn a_device_belongs_to_the_driver_of_its_session() {
    let made = Made::new();
    made.session(1, "default", ["10.0.0.1", "3260"], "LOGGED_IN");
    let own = made.scsi.interface.as_str();
    made.session(2, own, ["10.0.0.2", "3260"], "LOGGED_IN");
    for (number, session) in [("8:0", 1), ("8:16", 2)] {
        let host = session + 10;
        let real = format!("devices/platform/host{host}/session{session}/target/block/sd");
        made.file(&format!("{real}/dev"), number);
        made.link(&format!("dev/block/{number}"), &real);
        made.link(&format!("class/block/sd{session}"), &real);
    }
    // Maps of one path and of the other.
    for (number, path) in [(0, "sd1"), (1, "sd2")] {
        let map = format!("devices/virtual/block/dm-{number}");
        made.file(&format!("{map}/dm/uuid"), "mpath-3600");
        made.file(&format!("{map}/slaves/{path}"), "");
        made.link(&format!("dev/block/253:{number}"), &map);
        made.link(&format!("class/block/dm-{number}"), &map);
    }
    made.file("devices/pci/block/vda/dev", "8:32");
    made.link("dev/block/8:32", "devices/pci/block/vda");
    let is_own = |major, minor| {
        let number = DeviceNumber { major, minor };
        made.scsi.has_attached(number)
    };
    assert!(is_own(8, 16) && is_own(253, 1));
    for (major, minor) in [(8, 0), (8, 32), (8, 48), (253, 0)] {
        assert!(!is_own(major, minor), "{major}:{minor}");
    }
}

#[test]
fn names_of_disks_are_four_numbers() {
    assert_eq!(Disk::parse("2:0:1:300").unwrap().to_string(), "2:0:1:300");
    for name in ["", "2:0:1", "2:0:1:3:4", "2:1:1:3", "a:0:1:3", "host2"] {
        assert_eq!(Disk::parse(name), None, "{name}");
    }
}

#[test]
fn drivers_have_names_of_interfaces_of_their_own() {
    let of = |name: &str| Scsi::of(&driver(name)).interface;
    let long = "a".repeat(63);
    assert_ne!(of("a.test"), of("b.test"));
    assert_eq!(of("a.test"), of("a.test"));
    // The limit of open-iscsi, with its end: ISCSI_MAX_IFACE_LEN.
    assert!(of(&long).len() < 65);
}

#[test]
fn ways_by_one_portal_to_one_target_share_a_session() {
    let one = path("10.0.0.2:3260", 7);
    let to = |portal: &str, target| IscsiPath::to_target(portal.parse().unwrap(), target);
    let shares = |portal, target| one.shares_session_with(&to(portal, target).unwrap());
    assert!(shares("10.0.0.2:3260", TARGET));
    assert!(!shares("10.0.0.2:3261", TARGET));
    assert!(!shares("10.0.0.3:3260", TARGET));
    assert!(!shares("10.0.0.2:3260", "iqn.2026-01.example:b"));
    assert_eq!(to("10.0.0.2:3260", "../b"), None);
}
