//! What the printed manifests promise of two backends in one namespace: one is taken out without the other. A step of the one test of this
//! program.

use crate::newcomer::{Newcomer, claim, pod};

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
