//! Every call that plugins/hostpath serves, once by its name, each standing on the records and the pool of those before.

use crate::looking_inside::program::{Bench, component, text};
use serde_json::Value;
use std::collections::BTreeSet;
use wasmount_core::rpc::Rpc;

/// Mounted, and one node writes.
const CAPABILITY: &str = "{mount: {}, access_mode: {mode: SINGLE_NODE_WRITER}}";

/// A life, and beside it everything else; `VOLUME` and `SNAPSHOT` stand for the ids that were answered. What the kernel alone answers is not
/// served without mounts.
const CALLS: &[(&str, &str, &str)] = &[
    ("GetPluginInfo", "{}", "OK"),
    ("GetPluginCapabilities", "{}", "OK"),
    ("Probe", "{}", "OK"),
    ("ControllerGetCapabilities", "{}", "OK"),
    ("GroupControllerGetCapabilities", "{}", "OK"),
    ("NodeGetCapabilities", "{}", "OK"),
    ("NodeGetInfo", "{}", "OK"),
    ("GetCapacity", "{}", "OK"),
    (
        "CreateVolume",
        "{name: a, volume_capabilities: [CAPABILITY], capacity_range: {required_bytes: 1048576}}",
        "OK",
    ),
    (
        "ValidateVolumeCapabilities",
        "{volume_id: VOLUME, volume_capabilities: [CAPABILITY]}",
        "OK",
    ),
    ("ListVolumes", "{}", "OK"),
    ("ControllerGetVolume", "{volume_id: VOLUME}", "OK"),
    (
        "ControllerPublishVolume",
        "{volume_id: VOLUME, node_id: workbench, volume_capability: CAPABILITY}",
        "OK",
    ),
    (
        "NodeStageVolume",
        "{volume_id: VOLUME, staging_target_path: /a, volume_capability: CAPABILITY,
          volume_context: {pool: volumes, fsType: ext4}}",
        "OK",
    ),
    (
        "NodePublishVolume",
        "{volume_id: VOLUME, staging_target_path: /a, target_path: /b, volume_capability: CAPABILITY}",
        "OK",
    ),
    (
        "NodeGetVolumeStats",
        "{volume_id: VOLUME, volume_path: /b}",
        "UNIMPLEMENTED",
    ),
    ("NodeGetVolumeHealth", "{volume_id: VOLUME}", "OK"),
    ("NodeGetStorageHealth", "{}", "OK"),
    ("ControllerGetVolumeHealth", "{volume_id: VOLUME}", "OK"),
    ("ControllerListVolumeHealth", "{}", "OK"),
    (
        "NodeUnpublishVolume",
        "{volume_id: VOLUME, target_path: /b}",
        "OK",
    ),
    (
        "NodeUnstageVolume",
        "{volume_id: VOLUME, staging_target_path: /a}",
        "OK",
    ),
    (
        "ControllerUnpublishVolume",
        "{volume_id: VOLUME, node_id: workbench}",
        "OK",
    ),
    (
        "ControllerExpandVolume",
        "{volume_id: VOLUME, capacity_range: {required_bytes: 2097152}}",
        "OK",
    ),
    (
        "NodeExpandVolume",
        "{volume_id: VOLUME, volume_path: /b}",
        "UNIMPLEMENTED",
    ),
    (
        "ControllerModifyVolume",
        "{volume_id: VOLUME, mutable_parameters: {discard: \"true\"}}",
        "OK",
    ),
    (
        "CreateSnapshot",
        "{source_volume_id: VOLUME, name: s}",
        "OK",
    ),
    ("GetSnapshot", "{snapshot_id: SNAPSHOT}", "OK"),
    ("ListSnapshots", "{}", "OK"),
    ("GetMetadataAllocated", "{snapshot_id: SNAPSHOT}", "OK"),
    (
        "GetMetadataDelta",
        "{base_snapshot_id: SNAPSHOT, target_snapshot_id: SNAPSHOT}",
        "OK",
    ),
    ("DeleteSnapshot", "{snapshot_id: SNAPSHOT}", "OK"),
    // A group of one volume, in a pool whose file system may not share blocks.
    (
        "GetVolumeGroupSnapshot",
        "{group_snapshot_id: group-0, snapshot_ids: [snapshot-0]}",
        "NOT_FOUND",
    ),
    (
        "CreateVolumeGroupSnapshot",
        "{name: g, source_volume_ids: [VOLUME]}",
        "OK or UNIMPLEMENTED",
    ),
    (
        "DeleteVolumeGroupSnapshot",
        "{group_snapshot_id: group-0}",
        "OK",
    ),
    ("DeleteVolume", "{volume_id: VOLUME}", "OK"),
];

#[test]
fn every_call_that_hostpath_serves_is_made_by_its_name() {
    let named: BTreeSet<_> = CALLS.iter().map(|(rpc, ..)| *rpc).collect();
    let known: BTreeSet<_> = Rpc::ALL.iter().map(|rpc| rpc.name()).collect();
    assert_eq!(named, known, "each call stands in the table");

    let bench = Bench::new();
    let plugin = component("hostpath");
    let (state, pools, cache) = (
        bench.path("s.json"),
        bench.path("pools"),
        bench.path("cache"),
    );
    let flags = [
        ["--state", text(&state)],
        ["--pools", text(&pools)],
        ["--cache", text(&cache)],
        ["--csi-profile", "1.13"],
    ];
    let (mut volume, mut snapshot) = (String::new(), String::new());
    let mut wrong = Vec::new();
    for (rpc, request, expected) in CALLS {
        let request = request
            .replace("CAPABILITY", CAPABILITY)
            .replace("VOLUME", &volume)
            .replace("SNAPSHOT", &snapshot);
        let mut words = vec!["call", text(&plugin), rpc, &request, "--json"];
        words.extend(flags.as_flattened());
        let answer = bench.run(&words).json();
        let found = answer["codeName"].as_str().unwrap();
        if !expected.split(" or ").any(|code| code == found) {
            wrong.push(format!("{rpc}: {found} {}", answer["message"]));
        }
        let id = |what: &str| {
            let id = &answer["responses"][0][what][format!("{what}_id")];
            id.as_str().map(str::to_owned)
        };
        match *rpc {
            "CreateVolume" => volume = id("volume").unwrap_or_default(),
            "CreateSnapshot" => snapshot = id("snapshot").unwrap_or_default(),
            "GetMetadataAllocated" => assert!(!answer["responses"].as_array().unwrap().is_empty()),
            "DeleteVolume" => assert_ne!(answer["state"], Value::Array(Vec::new())),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
