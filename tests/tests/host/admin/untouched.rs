//! A version that is refused has changed nothing, whatever it tried while it was asked: volumes and records of the one that serves are
//! as they were, and nothing of it stays on disk.

use crate::admin::scene::{DRIVER, Scene};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use wasmount_csi::wire::csi::v1::CreateVolumeRequest;
use wasmount_tests::builds::{build_of, put};
use wasmount_tests::host::HostOptions;
use wasmount_tests::orchestrator::{Orchestrator, code};
use wasmount_tests::requests;

/// Settings by which plugins/misbehave empties store and pool, and for what it is refused then.
const ATTEMPTS: [(&str, &str); 3] = [
    ("destroy-as-another", "services"),
    ("destroy-in-check", "settings"),
    ("destroy-in-probe", "probe"),
];

/// Has the plugin write a record that can be made once.
async fn record_once(orchestrator: &Orchestrator) -> tonic::Code {
    let mut controller = orchestrator.clients().controller;
    let parameters = [("behaviour".to_owned(), "record-once".to_owned())];
    let made = controller
        .create_volume(CreateVolumeRequest {
            parameters: parameters.into(),
            ..requests::create("fine", 1 << 20)
        })
        .await;
    code(&made)
}

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_rejected_version_changes_and_leaves_nothing() {
    let scene = Scene::serving("misbehave", HostOptions::default());
    let orchestrator = scene.orchestrator().await;
    let kept = orchestrator.created("fine.kept").await.unwrap();
    orchestrator.set_up(&kept).await.unwrap();
    kept.write("precious").unwrap();
    let idle = orchestrator.created("fine.idle").await.unwrap();
    assert_eq!(record_once(&orchestrator).await, tonic::Code::Ok);

    let pool = scene.host.mount_data().join("pools").join(DRIVER);
    let compiled = scene.host.data().join("compiled");
    let before = (names(&pool), names(&compiled));
    let document = fs::read_to_string(&scene.document).unwrap();
    for (behaviour, kind) in ATTEMPTS {
        put(&build_of("misbehave", behaviour).unwrap(), &scene.component).unwrap();
        scene.rewrite_with(&format!(
            "{document}  settings: {{ behaviour: {behaviour} }}\n"
        ));
        let refused = scene.refused(&["swap", DRIVER]);
        assert!(
            refused.contains(&format!("({kind})")),
            "{behaviour}: {refused}"
        );

        assert_eq!(
            kept.read_at(&kept.target).unwrap(),
            "precious",
            "{behaviour}"
        );
        assert_eq!(names(&pool), before.0, "{behaviour}");
        // It goes after the answer, and the host may be looking at the document by itself meanwhile.
        scene.until("its code is gone", |_| names(&compiled) == before.1);
        let again = record_once(&orchestrator).await;
        assert_eq!(again, tonic::Code::AlreadyExists, "{behaviour}");
    }
    put(&build_of("misbehave", "one").unwrap(), &scene.component).unwrap();
    scene.rewrite_with(&document);
    scene.done(&["swap", DRIVER]);
    orchestrator.tear_down(&kept).await.unwrap();
    orchestrator.delete(&idle.id).await.unwrap();
}
