//! The topology of snapshots, and when groups of them are ready.

use crate::backend::snapshot;
use crate::common::*;
use wasmount_core::backend::{CreateGroup, CreateSnapshot};
use wasmount_core::code::Code;
use wasmount_core::names::{GroupSnapshotId, RequestedName};
use wasmount_core::services::Feature;
use wasmount_core::snapshot::Snapshot;
use wasmount_core::topology::{Topology, TopologyRequirement};

fn place() -> Topology {
    Topology {
        segments: attributes(&[("zone", "a")]),
    }
}

fn somewhere() -> CreateSnapshot {
    CreateSnapshot {
        accessibility: Some(TopologyRequirement {
            requisite: vec![place()],
            preferred: Vec::new(),
        }),
        ..create_snapshot("s", "v")
    }
}

/// Every RPC that returns snapshots returns those of `made`, which have a topology.
async fn reported_topologies(bench: &Bench) -> Vec<usize> {
    let placed = Snapshot {
        accessible_topology: vec![place()],
        ..snapshot("snap", "v")
    };
    *bench.backend.snapshot.lock().unwrap() = placed.clone();
    *bench.backend.members.lock().unwrap() = vec![placed];
    let driver = &bench.driver;
    let made = driver.create_snapshot(incoming(), create_snapshot("s", "v"));
    let got = driver.get_snapshot(incoming(), snapshot_id("snap"));
    let listed = driver.list_snapshots(incoming(), Default::default());
    let group = driver.get_volume_group_snapshot(incoming(), group_id(), Vec::new());
    let mut told = vec![made.await.unwrap(), got.await.unwrap()];
    told.extend(listed.await.unwrap().entries);
    told.extend(group.await.unwrap().snapshots);
    let places = told
        .iter()
        .map(|snapshot| snapshot.accessible_topology.len());
    places.collect()
}

fn group_id() -> GroupSnapshotId {
    GroupSnapshotId::parse("group_snapshot_id", "g").unwrap()
}

#[tokio::test]
async fn snapshot_topology_is_passed_to_backends_that_know_it() {
    let bench = full_in_1_13(&[Feature::SnapshotTopology]);
    let made = bench.driver.create_snapshot(incoming(), somewhere());
    made.await.unwrap();
    let asked = bench.backend.asked_place.lock().unwrap().clone();
    assert_eq!(asked, somewhere().accessibility);
    assert_eq!(reported_topologies(&bench).await, [1, 1, 1, 1]);
}

#[tokio::test]
async fn a_snapshots_place_is_an_invalid_argument_where_it_does_not() {
    let bench = full_in_1_13(&[]);
    let refused = bench.driver.create_snapshot(incoming(), somewhere());
    assert_eq!(refused.await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(bench.backend.script.count("create_snapshot"), 0);
    assert_eq!(reported_topologies(&bench).await, [0, 0, 0, 0]);
}

#[tokio::test]
async fn csi_1_12_omits_snapshot_accessibility() {
    let bench = full(&[Feature::SnapshotTopology]);
    let made = bench.driver.create_snapshot(incoming(), somewhere());
    made.await.unwrap();
    assert_eq!(*bench.backend.asked_place.lock().unwrap(), None);
    assert_eq!(reported_topologies(&bench).await, [0, 0, 0, 0]);
}

#[tokio::test]
async fn a_group_is_ready_when_all_its_members_are() {
    for (readiness, expected) in [
        ([true, true], true),
        ([true, false], false),
        ([false, false], false),
    ] {
        let bench = full(&[]);
        let members = readiness.map(|ready_to_use| Snapshot {
            ready_to_use,
            ..snapshot("snap", "v")
        });
        *bench.backend.members.lock().unwrap() = members.to_vec();
        let args = CreateGroup {
            name: RequestedName::parse("name", "g").unwrap(),
            source_volumes: vec![volume_id("v")],
            parameters: attributes(&[]),
        };
        let driver = &bench.driver;
        let made = driver.create_volume_group_snapshot(incoming(), args);
        assert_eq!(made.await.unwrap().ready_to_use, expected);
        let asked = driver.get_volume_group_snapshot(incoming(), group_id(), Vec::new());
        assert_eq!(asked.await.unwrap().ready_to_use, expected);
    }
}
