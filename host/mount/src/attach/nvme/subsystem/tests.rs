//! Subsystems in trees of plain files, as Linux 6.1 shows them.

use super::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use tempfile::TempDir;

const NQN: &str = "nqn.2010-06.com.acme:array";
const UUID: &str = "11111111-2222-4333-8444-555555555555";
const NGUID: &str = "00253858-0000-0000-0000-000000000001";

/// A `/sys` that is built for a test.
struct Sys(TempDir);

impl Sys {
    fn new() -> Self {
        let sys = Self(tempfile::tempdir().unwrap());
        sys.set("class/nvme-subsystem/nvme-subsys0/subsysnqn", NQN);
        sys
    }

    fn set(&self, path: &str, value: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{value}\n")).unwrap();
    }

    /// A controller, with paths by name and state.
    fn controller(&self, number: u32, address: &str, state: &str, paths: &[(&str, &str)]) {
        let folder = format!("devices/virtual/nvme-fabrics/ctl/nvme{number}");
        self.set(&format!("{folder}/transport"), "tcp");
        self.set(&format!("{folder}/address"), address);
        self.set(&format!("{folder}/state"), state);
        for (path, ana) in paths {
            self.set(&format!("{folder}/{path}/ana_state"), ana);
        }
        let class = self.0.path().join("class/nvme-subsystem/nvme-subsys0");
        let link = class.join(format!("nvme{number}"));
        symlink(self.0.path().join(folder), link).unwrap();
    }

    /// A namespace over all paths.
    fn namespace(&self, name: &str, number: &str, identities: &[(&str, &str)]) {
        let folder = format!("class/nvme-subsystem/nvme-subsys0/{name}");
        self.set(&format!("{folder}/dev"), number);
        self.set(&format!("{folder}/nsid"), "1");
        for (attribute, value) in identities {
            self.set(&format!("{folder}/{attribute}"), value);
        }
    }

    fn read(&self) -> Subsystem {
        Subsystem::read(self.0.path(), NQN)
    }
}

fn uuid(text: &str) -> Uuid {
    Uuid::parse_str(text).unwrap()
}

/// Two controllers, one of which is lost.
fn two_paths() -> Sys {
    let sys = Sys::new();
    let live = [("nvme0c0n1", "optimized"), ("nvme0c0n2", "inaccessible")];
    sys.controller(0, "traddr=10.1.2.3,trsvcid=4420", "live", &live);
    let lost = [("nvme0c1n1", "optimized")];
    let address = "traddr=fd00::1,trsvcid=4420,src_addr=fd00::2";
    sys.controller(1, address, "connecting", &lost);
    let wwid = format!("uuid.{UUID}");
    sys.namespace("nvme0n1", "259:0", &[("wwid", &wwid), ("nguid", NGUID)]);
    sys.namespace("nvme0n2", "259:1", &[("wwid", "eui.0025"), ("nguid", UUID)]);
    sys
}

#[test]
fn a_namespace_is_found_by_uuid_and_by_nguid() {
    let sys = two_paths();
    fs::remove_dir_all(
        sys.0
            .path()
            .join("class/nvme-subsystem/nvme-subsys0/nvme0n2"),
    )
    .unwrap();
    let subsystem = sys.read();
    for identity in [UUID, NGUID] {
        let (name, namespace) = subsystem.choose(uuid(identity), 1).unwrap();
        assert_eq!(name, "nvme0n1");
        let number = DeviceNumber {
            major: 259,
            minor: 0,
        };
        assert_eq!((namespace.number, namespace.id), (number, 1));
    }
}

#[test]
fn another_namespace_is_none_and_the_controllers_are_told() {
    let subsystem = two_paths().read();
    let missing = subsystem.choose(Uuid::from_u128(1), 1).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "the subsystem has no such namespace for this host (controllers: 10.1.2.3:4420 live; [fd00::1]:4420 connecting)"
    );
    let none = Subsystem::read(Path::new("/nowhere"), NQN);
    let missing = none.choose(Uuid::from_u128(1), 1).unwrap_err();
    assert_eq!(missing, Missing::NoController);
}

#[test]
fn only_paths_that_carry_requests_count() {
    let subsystem = two_paths().read();
    let few = subsystem.choose(uuid(NGUID), 2).unwrap_err();
    assert_eq!(
        few.to_string(),
        "1 of 2 paths carry requests (others: [fd00::1]:4420 connecting, optimized)"
    );
    // The second namespace has the first one's UUID as its NGUID: both are taken for it, and neither is chosen.
    let several = subsystem.choose(uuid(UUID), 1).unwrap_err();
    assert_eq!(several, Missing::NotJoined { count: 2 });
}

#[test]
fn an_inaccessible_path_does_not_count() {
    let sys = Sys::new();
    let inaccessible = [("nvme0c0n1", "inaccessible")];
    sys.controller(0, "traddr=10.1.2.3,trsvcid=4420", "live", &inaccessible);
    sys.namespace("nvme0n1", "259:0", &[("nguid", NGUID)]);
    let few = sys.read().choose(uuid(NGUID), 1).unwrap_err();
    assert_eq!(
        few.to_string(),
        "0 of 1 paths carry requests (others: 10.1.2.3:4420 live, inaccessible)"
    );
}

#[test]
fn a_namespace_without_multipath_is_its_own_path() {
    let sys = Sys::new();
    sys.controller(0, "traddr=10.1.2.3,trsvcid=4420", "live", &[]);
    let folder = "devices/virtual/nvme-fabrics/ctl/nvme0/nvme0n1";
    for (attribute, value) in [("dev", "259:0"), ("nsid", "7"), ("nguid", NGUID)] {
        sys.set(&format!("{folder}/{attribute}"), value);
    }
    let subsystem = sys.read();
    let (name, namespace) = subsystem.choose(uuid(NGUID), 1).unwrap();
    assert_eq!((name.as_str(), namespace.id), ("nvme0n1", 7));
}

#[test]
fn another_subsystem_is_not_looked_at() {
    let sys = two_paths();
    let other = Subsystem::read(sys.0.path(), "nqn.2010-06.com.acme:arr");
    assert!(other.controllers.is_empty() && other.namespaces.is_empty());
}

#[test]
fn a_controller_is_found_by_its_address_until_it_goes() {
    let sys = two_paths();
    let at = |address: &str| {
        let subsystem = sys.read();
        let found = subsystem.at(address.parse().unwrap());
        found.map(|(name, _)| name.clone())
    };
    assert_eq!(at("10.1.2.3:4420").as_deref(), Some("nvme0"));
    assert_eq!(at("[fd00::1]:4420").as_deref(), Some("nvme1"));
    assert_eq!(at("10.1.2.3:4421"), None);
    for going in GOING {
        let state: PathBuf = "devices/virtual/nvme-fabrics/ctl/nvme0/state".into();
        sys.set(state.to_str().unwrap(), going);
        assert_eq!(at("10.1.2.3:4420"), None, "{going}");
    }
}

#[test]
fn names_of_sysfs_are_told_apart() {
    let path = |name: &str| Some(Name::Path(name.to_owned()));
    for (name, expected) in [
        ("nvme0", Some(Name::Controller)),
        ("nvme12n3", Some(Name::Namespace)),
        ("nvme1c2n3", path("nvme1n3")),
        ("nvme-subsys0", None),
        ("nvme", None),
        ("nvme0n1p1", None),
        ("ng0n1", None),
        ("nvmen1", None),
        ("nvme1cn3", None),
    ] {
        assert_eq!(parse_name(name), expected, "{name}");
    }
}

#[test]
fn only_an_address_of_the_network_is_parsed() {
    for (text, expected) in [
        (
            "traddr=10.1.2.3,trsvcid=4420,host_iface=eth0",
            Some("10.1.2.3:4420"),
        ),
        ("trsvcid=4420,traddr=fd00::1", Some("[fd00::1]:4420")),
        ("traddr=10.1.2.3", None),
        ("traddr=nn-0x1,trsvcid=none", None),
        ("0000:00:04.0", None),
        ("", None),
    ] {
        let address = expected.map(|it| it.parse().unwrap());
        assert_eq!(parse_address(text), address, "{text}");
    }
}
