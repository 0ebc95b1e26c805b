//! The object and the text of the event of each fault.

use super::*;
use wasmount_core::backend::PluginLabel;
use wasmount_core::names::DriverName;
use wasmount_core::rpc::Rpc;

const UID: &str = "0a1b2c3d-4e5f-6789-abcd-ef0123456789";

fn origin(name: Option<&str>, attributes: &[(&str, &str)]) -> Origin {
    Origin {
        name: name.map(str::to_owned),
        attributes: attributes
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
    }
}

fn fault(kind: FaultKind) -> PluginFault {
    PluginFault {
        driver: DriverName::parse("disks.example.com").unwrap(),
        rpc: Rpc::CreateVolume,
        kind,
        plugin: Some(PluginLabel {
            name: "disks".to_owned(),
            version: "1.2.0".to_owned(),
            digest: "sha256:0123456789abcdef0123".to_owned(),
        }),
        limit: Some("limits.memory (64 MiB)".to_owned()),
        origin: Origin::default(),
    }
}

fn object(api_version: &'static str, kind: &'static str, name: &str, uid: Option<String>) -> About {
    About::object(
        api_version,
        kind,
        Some("apps".to_owned()),
        name.to_owned(),
        uid,
    )
}

#[test]
fn a_call_of_kubelet_is_about_its_pod() {
    let attributes = [
        ("csi.storage.k8s.io/pod.namespace", "apps"),
        ("csi.storage.k8s.io/pod.name", "web-0"),
        ("csi.storage.k8s.io/pod.uid", UID),
    ];
    let uid = Some(UID.to_owned());
    let expected = object("v1", "Pod", "web-0", uid);
    assert_eq!(about(&origin(None, &attributes)), Some(expected));
    assert_eq!(
        about(&origin(None, &attributes[..2])),
        None,
        "not without its uid"
    );
}

#[test]
fn a_call_of_a_sidecar_is_about_its_claim_or_its_snapshot() {
    let claim = [
        ("csi.storage.k8s.io/pvc/namespace", "apps"),
        ("csi.storage.k8s.io/pvc/name", "data"),
    ];
    let made = format!("pvc-{UID}");
    let expected = |uid: Option<&str>| {
        object(
            "v1",
            "PersistentVolumeClaim",
            "data",
            uid.map(str::to_owned),
        )
    };
    let found = about(&origin(Some(&made), &claim));
    assert_eq!(found, Some(expected(Some(UID))));
    let found = about(&origin(Some("data-of-mine"), &claim));
    assert_eq!(found, Some(expected(None)));
    let snapshot = [
        ("csi.storage.k8s.io/volumesnapshot/namespace", "apps"),
        ("csi.storage.k8s.io/volumesnapshot/name", "nightly"),
    ];
    let uid = Some(UID.to_owned());
    let expected = object(
        "snapshot.storage.k8s.io/v1",
        "VolumeSnapshot",
        "nightly",
        uid,
    );
    let made = format!("snapshot-{UID}");
    assert_eq!(about(&origin(Some(&made), &snapshot)), Some(expected));
    assert_eq!(about(&Origin::default()), None);
}

#[test]
fn only_a_uid_is_taken_for_one() {
    assert_eq!(uid_in(UID).as_deref(), Some(UID));
    assert_eq!(uid_in(&UID[1..]), None);
    assert_eq!(uid_in(&UID.replace('-', "0")), None);
    assert_eq!(uid_in(&"ä".repeat(40)), None);
}

#[test]
fn a_note_says_who_did_what_and_whom_to_tell() {
    let (_, note) = described(&fault(FaultKind::OverLimit)).unwrap();
    assert_eq!(
        note,
        "The plugin disks 1.2.0 (0123456789ab) exceeded limits.memory (64 MiB) in CreateVolume. The volume's request is not at fault and is \
         retried: notify the administrator of the StorageBackend for driver disks.example.com; raise the limit, or use another version of the plugin."
    );
}

#[test]
fn every_fault_but_a_busy_backend_has_a_reason_of_its_own() {
    let all = FaultKind::ALL.iter();
    let events: Vec<_> = all.filter_map(|&kind| described(&fault(kind))).collect();
    let distinct: std::collections::BTreeSet<_> = events.iter().map(|it| it.0).collect();
    assert_eq!(distinct.len(), FaultKind::ALL.len() - 1);
    assert_eq!(described(&fault(FaultKind::Busy)), None);
    for (_, note) in events {
        assert!(note.len() <= 1024);
    }
}
