//! The table of the design (§4.2), written out: every RPC, with all subjects that its request can name.

use super::*;
use Mode::{Exclusive, Shared};

fn volume(id: &str) -> VolumeId {
    VolumeId::parse("volume_id", id).unwrap()
}

fn snapshot(id: &str) -> SnapshotId {
    SnapshotId::parse("snapshot_id", id).unwrap()
}

fn claimed(rpc: Rpc, change: impl FnOnce(&mut Subject<'_>)) -> Vec<String> {
    let id = volume("v");
    let node = NodeId::parse("node_id", "n").unwrap();
    let target = NodePath::parse("target_path", "/t").unwrap();
    let name = RequestedName::parse("name", "x").unwrap();
    let source = ContentSource::Volume(volume("source"));
    let members = [volume("m1"), volume("m2")];
    let group = GroupSnapshotId::parse("group_snapshot_id", "g").unwrap();
    let snapshots = [snapshot("s1"), snapshot("s2")];
    let mut subject = Subject {
        volume: Some(&id),
        node: Some(&node),
        target: Some(&target),
        name: Some(&name),
        source: Some(&source),
        members: &members,
        group: Some(&group),
        snapshots: &snapshots,
    };
    change(&mut subject);
    let name = |mode| match mode {
        Shared => "shared",
        Exclusive => "exclusive",
    };
    claims(rpc, subject)
        .into_iter()
        .map(|(key, mode)| format!("{key}: {}", name(mode)))
        .collect()
}

#[test]
fn every_call_claims_what_the_design_says() {
    let volume_alone = &["volume v: exclusive"][..];
    let target = &["volume v: shared", "target path /t: exclusive"][..];
    let attachment = &["volume v: shared", "volume v on node n: exclusive"][..];
    for rpc in Rpc::ALL {
        let expected = match rpc {
            Rpc::NodePublishVolume | Rpc::NodeUnpublishVolume => target,
            Rpc::NodeStageVolume | Rpc::NodeUnstageVolume | Rpc::NodeExpandVolume => volume_alone,
            Rpc::ControllerPublishVolume | Rpc::ControllerUnpublishVolume => attachment,
            Rpc::CreateVolume => &["the volume named x: exclusive", "volume source: shared"],
            Rpc::CreateSnapshot => &["the snapshot named x: exclusive", "volume v: shared"],
            Rpc::CreateVolumeGroupSnapshot => &[
                "the group snapshot named x: exclusive",
                "volume m1: shared",
                "volume m2: shared",
            ],
            Rpc::DeleteVolume | Rpc::ControllerExpandVolume | Rpc::ControllerModifyVolume => {
                volume_alone
            }
            Rpc::DeleteSnapshot => &["snapshot s1: exclusive", "snapshot s2: exclusive"],
            Rpc::DeleteVolumeGroupSnapshot => &[
                "group snapshot g: exclusive",
                "snapshot s1: exclusive",
                "snapshot s2: exclusive",
            ],
            _ => &[],
        };
        assert_eq!(claimed(*rpc, |_| ()), expected, "{rpc}");
        assert_eq!(changes(*rpc), !expected.is_empty(), "{rpc}");
    }
}

#[test]
fn one_call_at_a_time_registers_a_node() {
    for rpc in [Rpc::RegisterNode, Rpc::UnregisterNode] {
        assert_eq!(claimed(rpc, |_| ()), ["node n: exclusive"], "{rpc}");
        assert!(changes(rpc), "{rpc}");
    }
}

#[test]
fn unpublishing_from_all_nodes_claims_the_volume_alone() {
    assert_eq!(
        claimed(Rpc::ControllerUnpublishVolume, |subject| subject.node =
            None),
        ["volume v: exclusive"]
    );
}

#[test]
fn a_snapshot_source_is_claimed_shared() {
    let source = ContentSource::Snapshot(snapshot("s"));
    let id = volume("v");
    let name = RequestedName::parse("name", "x").unwrap();
    let subject = Subject {
        name: Some(&name),
        source: Some(&source),
        ..Subject::default()
    };
    assert_eq!(
        claims(Rpc::CreateVolume, subject).last(),
        Some(&(ClaimKey::Snapshot(snapshot("s")), Shared))
    );
    assert_eq!(
        claimed(Rpc::CreateVolume, |subject| subject.source = None),
        ["the volume named x: exclusive"]
    );
    assert_eq!(volume_alone(&id), [(ClaimKey::Volume(id), Exclusive)]);
}
