//! All that is printed is taken by the API server, and what stands in `deploy/` is what is printed.

use crate::manifests::scene::{Scene, error_of, printed, run, workspace};
use std::fs;
use wasmount_tests::documents;
use xtask::deploy::{self, Printed};

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_takes_every_object_that_is_printed() {
    let scene = Scene::start().await;
    scene.with_snapshot_kinds();
    scene.with_shared_objects();
    for plugin in ["hostpath", "directory", "podfiles"] {
        let document = workspace().backend_document(plugin);
        let (text, _) = printed(&document, &["--topology", "node-local"]);
        scene.apply(&text);
    }
    // The same driver in other forms: what cannot change goes first, as the host would say.
    scene.without_drivers();
    let shared = documents::hostpath_over_pool(scene.directory.path(), "/srv".as_ref()).unwrap();
    let (text, _) = printed(&shared, &["--topology", "network"]);
    scene.apply(&text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_accepts_every_overlay() {
    let scene = Scene::start().await;
    scene.with_snapshot_kinds();
    let apply = |folder: &str| {
        let folder = workspace().root().join("deploy").join(folder);
        scene.kubectl(&["apply", "-k", folder.to_str().unwrap()])
    };
    let too_early = apply("overlays/node-local");
    let said = error_of(&too_early);
    assert!(
        !too_early.status.success() && said.contains("namespaces \"wasmount-system\" not found"),
        "{said}"
    );
    for folder in ["shared", "overlays/node-local", "overlays/network"] {
        let applied = apply(folder);
        let said = error_of(&applied);
        assert!(
            applied.status.success() && said.is_empty(),
            "{folder}: {said}"
        );
    }
}

#[test]
fn the_printed_part_of_deploy_is_what_is_printed_now() {
    for Printed { path, text } in deploy::print(&workspace()).unwrap() {
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            there == text,
            "{}: run `cargo xtask deploy`",
            path.display()
        );
    }
}

#[test]
fn a_plugin_is_admitted_before_anything_is_printed() {
    let directory = tempfile::tempdir().unwrap();
    let component = directory.path().join("none.wasm");
    let document = documents::of_component(directory.path(), "a.example", &component).unwrap();
    let output = run(&document, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let said = error_of(&output);
    assert!(
        said.contains("none.wasm") && said.contains("cannot be read"),
        "{said}"
    );
}

#[test]
fn what_works_on_one_node_only_is_said() {
    let document = workspace().backend_document("directory");
    let (_, said) = printed(&document, &["--topology", "node-local"]);
    assert!(
        said.contains("no topology") && said.contains("EXPAND_VOLUME"),
        "{said}"
    );
    let output = run(&document, &["--topology", "network"]);
    let said = error_of(&output);
    assert!(
        !output.status.success() && said.contains("relative path"),
        "{said}"
    );
}
