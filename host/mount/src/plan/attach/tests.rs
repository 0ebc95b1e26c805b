//! Tests of the steps `iscsi` and `nvme`: what is parsed, and what grants cover.

use super::*;
use wasmount_core::plan::attached::{IscsiPath as Way, PATHS};

const PORTAL: &str = "10.1.1.5:3260";
const TARGET: &str = "iqn.2010-06.com.acme:array";
const ID: &str = "00253858-0000-0000-0000-000000000001";

fn way(portal: &str, target: &str, lun: u16) -> Way {
    Way {
        portal: portal.to_owned(),
        target: target.to_owned(),
        lun,
    }
}

fn iscsi() -> Iscsi {
    Iscsi {
        paths: vec![way(PORTAL, TARGET, 1), way("10.1.1.6:3260", TARGET, 1)],
        wwid: "naa.6001405".to_owned(),
        minimum_paths: 1,
        wait_ms: 5000,
        chap: None,
        mutual_chap: None,
    }
}

fn nvme() -> Nvme {
    Nvme {
        addresses: vec!["[fd00::5]:4420".to_owned()],
        subsystem: "nqn.2010-06.com.acme:array".to_owned(),
        namespace_id: ID.to_owned(),
        minimum_paths: 1,
        wait_ms: 0,
        dhchap: None,
    }
}

fn granting(protocol: AttachProtocol, portals: &str, target: &str, option: &str) -> AttachGrant {
    AttachGrant {
        protocol,
        portals: vec![Portals::parse(portals).unwrap()],
        targets: vec![target.to_owned()],
        mount_options: vec![option.to_owned()],
    }
}

fn of(grants: &[AttachGrant]) -> Grants {
    Grants {
        attach: grants.to_vec(),
        ..Grants::default()
    }
}

fn refused(source: Source) -> String {
    let grants = of(&[granting(
        AttachProtocol::Iscsi,
        "10.1.1.0/24:3260",
        "iqn.*",
        "discard",
    )]);
    check(&source, &grants).unwrap_err().to_string()
}

#[test]
fn a_granted_disk_is_found_by_its_identity_alone() {
    let granted = [
        granting(
            AttachProtocol::Iscsi,
            "10.1.1.0/24:3260",
            "iqn.2010-06.com.acme:*",
            "discard",
        ),
        granting(AttachProtocol::Iscsi, "10.9.9.9:3260", "iqn.*", "suid"),
    ];
    let mut iscsi = iscsi();
    iscsi.minimum_paths = 2;
    let source = Source::Iscsi(iscsi);
    let device = check(&source, &of(&granted)).unwrap();
    let facts = RequestedFacts::from([(DeviceFact::Wwid, "naa.6001405".to_owned())]);
    assert_eq!(device.alternatives, std::slice::from_ref(&facts));
    // Options of the entry that covers it, and of no other.
    let [grant] = device.grants.as_slice() else {
        panic!("{:?}", device.grants);
    };
    assert_eq!(grant.mount_options, ["discard"]);
    assert_eq!(grant.facts, facts);
    let attachment = Attachment::of(&source).unwrap();
    assert!(
        matches!(attachment, Some(Attachment::Iscsi(disk)) if disk.paths.len() == 2 && disk.minimum_paths == 2)
    );
}

#[test]
fn a_granted_namespace_is_found_by_uuid_or_nguid() {
    let granted = granting(
        AttachProtocol::NvmeTcp,
        "[fd00::/64]:4420",
        "nqn.2010-06.com.acme:array",
        "discard",
    );
    let device = check(&Source::Nvme(nvme()), &of(&[granted])).unwrap();
    let uuid = RequestedFacts::from([(DeviceFact::Wwid, format!("uuid.{ID}"))]);
    let nguid = RequestedFacts::from([(DeviceFact::Nguid, ID.to_owned())]);
    assert_eq!(device.alternatives, [uuid, nguid]);
    assert_eq!(device.grants.len(), 2);
}

#[test]
fn a_path_that_no_grant_covers_is_refused_with_the_line_to_add() {
    for (grant, step) in [
        (
            granting(AttachProtocol::Iscsi, PORTAL, "iqn.*", "ro"),
            "the second portal",
        ),
        (
            granting(AttachProtocol::Iscsi, "10.1.1.0/24:3261", "iqn.*", "ro"),
            "the port",
        ),
        (
            granting(AttachProtocol::Iscsi, "10.1.1.0/24:3260", "iqn.b*", "ro"),
            "the target",
        ),
        (
            granting(AttachProtocol::NvmeTcp, "10.1.1.0/24:3260", "iqn.*", "ro"),
            "the protocol",
        ),
    ] {
        let refused = check(&Source::Iscsi(iscsi()), &of(&[grant])).unwrap_err();
        assert!(
            matches!(&refused, MountError::NotGranted { text, .. } if text.contains(
                "add `{ protocol: iscsi, portals: [\"10.1.1.5:3260\", \"10.1.1.6:3260\"], targets: [\"iqn.2010-06.com.acme:array\"] }`"
            )),
            "{step}: {refused}"
        );
    }
}

#[test]
fn paths_that_no_storage_system_has_are_refused() {
    let with = |change: fn(&mut Iscsi)| {
        let mut iscsi = iscsi();
        change(&mut iscsi);
        refused(Source::Iscsi(iscsi))
    };
    for (refused, told) in [
        (with(|it| it.paths.clear()), "there are 0, and 1 to 16"),
        (
            with(|it| it.paths = vec![way(PORTAL, TARGET, 1); PATHS + 1]),
            "there are 17",
        ),
        (with(|it| it.minimum_paths = 0), "it must be 1 to 2"),
        (with(|it| it.minimum_paths = 3), "it must be 1 to 2"),
        (with(|it| it.wait_ms = 45_001), "more than 45000"),
        (with(|it| it.paths[0].lun = 256), "256 is more than 255"),
        (
            with(|it| it.paths[0].portal = "array:3260".to_owned()),
            "`array:3260` is no address with a port",
        ),
        (
            with(|it| it.paths[0].portal = "10.1.1.5:0".to_owned()),
            "no address with a port",
        ),
        (
            with(|it| it.wwid = "sda".to_owned()),
            "identity of VPD page 83",
        ),
        (with(|it| it.wwid = String::new()), "is empty"),
    ] {
        assert!(refused.contains(told), "{refused}");
    }
}

#[test]
fn names_of_targets_are_no_paths_and_no_words_of_options() {
    for name in [
        "",
        "array",
        "iqn.a/../../x",
        "iqn.a\nnode.startup=automatic",
        "iqn.a b",
        "iqn.a,hostnqn=x",
        "nqn.a",
    ] {
        let mut iscsi = iscsi();
        iscsi.paths[0].target = name.to_owned();
        let refused = refused(Source::Iscsi(iscsi));
        assert!(refused.contains("is no name of a target"), "{refused}");
    }
    let mut long = iscsi();
    long.paths[0].target = format!("iqn.{}", "a".repeat(NAME_BYTES));
    assert!(refused(Source::Iscsi(long)).contains("has at most 223 bytes"));
}

#[test]
fn identities_that_no_namespace_has_are_refused() {
    for id in [
        "",
        "x",
        "00253858000000000000000000000001",
        &ID.to_uppercase()[..35],
    ] {
        let mut nvme = nvme();
        nvme.namespace_id = id.to_owned();
        let refused = refused(Source::Nvme(nvme));
        assert!(
            refused.contains("must be a UUID in lower case"),
            "{refused}"
        );
    }
}

#[test]
fn a_disk_is_shared_by_identity_or_place() {
    let disk = |change: fn(&mut Iscsi)| {
        let mut iscsi = iscsi();
        change(&mut iscsi);
        Attachment::of(&Source::Iscsi(iscsi)).unwrap().unwrap()
    };
    let one = disk(|_| {});
    assert!(one.shares_disk_with(&disk(|it| it.paths[0].lun = 7)));
    assert!(one.shares_disk_with(&disk(|it| it.wwid = "naa.7".to_owned())));
    let other = disk(|it| {
        it.wwid = "naa.7".to_owned();
        it.paths.iter_mut().for_each(|path| path.lun = 7);
    });
    assert!(!one.shares_disk_with(&other));
    let namespace = Attachment::of(&Source::Nvme(nvme())).unwrap().unwrap();
    assert!(!one.shares_disk_with(&namespace) && namespace.shares_disk_with(&namespace));
    let tmpfs = Source::Tmpfs { size_bytes: None };
    assert_eq!(Attachment::of(&tmpfs), Ok(None));
}
