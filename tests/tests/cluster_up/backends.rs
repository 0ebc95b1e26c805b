//! What the printed manifests promise of two backends in one namespace: claims and snapshots of a node's volumes do not hang, and one backend is
//! taken out without the other. Steps of the one test of this program.

use crate::newcomer::{Newcomer, PATIENCE, claim, pod};
use serde_json::{Value, json};
use xtask::cluster::access::NODE_NAME;

const HOSTPATH: &str = "hostpath.wasmount.io";

/// Once the snapshot `moment` is there: the same snapshot, under another name.
pub(crate) fn a_snapshot_that_is_there_already_is_found_by_its_node(newcomer: &Newcomer) {
    let handle = newcomer.kubectl(&[
        "get",
        "volumesnapshotcontents",
        "--output",
        "jsonpath={.items[0].status.snapshotHandle}",
    ]);
    let content = |labels: Value| {
        json!({
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshotContent",
            "metadata": { "name": "known", "labels": labels },
            "spec": {
                "driver": HOSTPATH,
                "deletionPolicy": "Retain",
                "source": { "snapshotHandle": handle },
                "volumeSnapshotRef": { "namespace": "default", "name": "known" },
            },
        })
    };
    let said = newcomer.refusal(&content(json!({})));
    let label = "snapshot.storage.kubernetes.io/managed-by";
    assert!(said.contains(&format!("{label}=<node>")), "{said}");
    let snapshot = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1",
        "kind": "VolumeSnapshot",
        "metadata": { "name": "known" },
        "spec": { "source": { "volumeSnapshotContentName": "known" } },
    });
    newcomer.apply(&[content(json!({ label: NODE_NAME })), snapshot]);
    let ready = "--for=jsonpath={.status.readyToUse}=true";
    newcomer.kubectl(&["wait", ready, "volumesnapshot/known", PATIENCE]);
}

/// Though nothing tells on which node it is to be made.
pub(crate) fn a_claim_that_waits_for_no_pod_is_bound(newcomer: &Newcomer) {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": { "name": "at-once" },
        "provisioner": HOSTPATH,
        "volumeBindingMode": "Immediate",
    });
    newcomer.apply(&[class, claim("at-once", "at-once", None)]);
    let bound = "--for=jsonpath={.status.phase}=Bound";
    newcomer.kubectl(&["wait", bound, "pvc/at-once", PATIENCE]);
}

/// By the file that it was applied from. What they share stays, and so do the volumes of the other: they are mounted anew, and deleted.
pub(crate) fn one_is_deleted_while_another_serves(newcomer: &Newcomer) {
    newcomer.apply(&[
        claim("kept", "local-images", None),
        pod("first", "kept", "echo kept > /data/word"),
    ]);
    newcomer.said_by("first");
    let file = newcomer.root().join("hostpath.yaml");
    newcomer.kubectl(&["delete", "--filename", file.to_str().unwrap()]);

    let names = |kind: &str| newcomer.kubectl(&["get", kind, "--output", "name"]);
    assert!(names("namespaces").contains("namespace/wasmount-system\n"));
    for plural in ["backendrecords", "storagebackends", "storagebackendnodes"] {
        assert!(names("crds").contains(&format!("/{plural}.wasmount.io\n")));
    }
    let drivers = "csidriver.storage.k8s.io/local-images.wasmount.io\n";
    assert_eq!(names("csidrivers"), drivers);
    newcomer.apply(&[pod("second", "kept", "cat /data/word")]);
    assert_eq!(newcomer.said_by("second"), "kept\n");
    newcomer.without_volumes();
}
