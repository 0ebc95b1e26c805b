//! `wasmount inspect` of plugins that are components.

use crate::looking_inside::program::{Bench, component, text};
use serde_json::{Value, json};
use std::fs;
use wasmount_tests::root::needs_root;
use xtask::workspace::Workspace;
use xtask_guests::language::{self, Language};

fn names(list: &Value) -> Vec<&str> {
    let entries = list.as_array().unwrap().iter();
    entries
        .map(|entry| entry["name"].as_str().unwrap())
        .collect()
}

#[test]
fn a_plugin_is_shown_with_exports_and_imports() {
    let bench = Bench::new();
    let plugin = component("directory");
    let told = bench.run(&["inspect", text(&plugin), "--json"]).well();
    let found = told.json();
    let size = fs::metadata(&plugin).unwrap().len();
    assert_eq!(found["sizeBytes"], json!(size));
    assert_eq!(
        found["digest"].as_str().unwrap().len(),
        "sha256:".len() + 64
    );
    assert_eq!(
        found["contract"],
        json!({ "versions": ["0.1.0"], "hostLine": "0.1" })
    );
    assert_eq!(found["plugin"]["name"], "directory.wasmount.io");
    assert_eq!(
        found["services"],
        json!(["controller", "controller-expand", "capacity", "node-stage"])
    );
    assert_eq!(
        found["capabilities"]["1.12"]["controller"],
        json!([
            "CREATE_DELETE_VOLUME",
            "GET_CAPACITY",
            "EXPAND_VOLUME",
            "SINGLE_NODE_MULTI_WRITER"
        ])
    );
    assert_eq!(
        found["capabilities"]["1.13"]["node"],
        json!([
            "STAGE_UNSTAGE_VOLUME",
            "GET_VOLUME_STATS",
            "EXPAND_VOLUME",
            "SINGLE_NODE_MULTI_WRITER",
            "GET_VOLUME_HEALTH",
            "GET_STORAGE_HEALTH"
        ])
    );
    assert!(names(&found["producers"]["language"]).contains(&"Rust"));
    assert_eq!(
        found["producers"]["sdk"],
        json!([{ "name": "wasmount-guest", "version": "0.1.0" }])
    );
    assert_eq!(
        names(&found["permissions"]),
        ["pools", "records", "mounts", "environment", "output"]
    );
    assert_eq!(
        found["verdict"],
        json!({ "word": "serves", "kind": null, "reason": null, "needs": [], "warnings": [] })
    );
}

#[test]
fn output_without_a_terminal_is_equal_without_colour() {
    let bench = Bench::new();
    let plugin = component("hostpath");
    let told = bench.run(&["inspect", text(&plugin)]).well();
    for part in [
        "plugin     hostpath.wasmount.io 0.1.0\n",
        "contract   wasmount:csi/* 0.1.0; this host speaks 0.1\n",
        "CSI 1.13   plugin: CONTROLLER_SERVICE,",
        "asks for   pools       makes, copies and removes trees and images",
        "signature  none found\n",
        "verdict    this host would serve it\n",
    ] {
        assert!(told.out.contains(part), "{part}: {}", told.out);
    }
    assert!(!told.out.contains('\u{1b}'), "{}", told.out);
}

#[test]
fn a_plugin_that_needs_files_names_the_flag() {
    let bench = Bench::new();
    let plugin = component("insistent");
    let found = bench
        .run(&["inspect", text(&plugin), "--json"])
        .well()
        .json();
    assert_eq!(found["verdict"]["word"], "depends");
    assert_eq!(
        found["verdict"]["needs"],
        json!(["`spec: {plugin: {wasi: full}}`"])
    );
    let told = bench.run(&["inspect", text(&plugin)]).well();
    assert!(
        told.out
            .contains("this host would serve it under a document that says what it needs")
            && told
                .out
                .contains("the document must say `spec: {plugin: {wasi: full}}`"),
        "{}",
        told.out
    );
    assert_eq!(names(&found["permissions"])[..2], ["files", "sockets"]);
}

#[test]
fn the_verdict_is_that_of_the_document() {
    let bench = Bench::new();
    let plugin = component("insistent");
    let document = bench.document(&plugin, "");
    let words = [
        "inspect",
        text(&plugin),
        "--backend",
        text(&document),
        "--json",
    ];
    let found = bench.run(&words).well().json();
    assert_eq!(found["verdict"]["word"], "refused");
    let reason = found["verdict"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("set spec.plugin.wasi to `full` in the backend document"),
        "{reason}"
    );
}

#[test]
fn settings_that_a_plugin_refuses_are_its_documents_fault() {
    let bench = Bench::new();
    let plugin = component("hostpath");
    let document = bench.document(&plugin, "  settings: { maxVolumesPerNode: \"many\" }\n");
    let words = ["inspect", text(&plugin), "--backend", text(&document)];
    let told = bench.run(&words).well();
    assert!(
        told.out.contains("this host would refuse it"),
        "{}",
        told.out
    );
    assert!(
        told.out
            .contains("the plugin does not accept its settings:"),
        "{}",
        told.out
    );
}

#[test]
fn the_world_is_printed_as_wit() {
    let bench = Bench::new();
    let plugin = component("directory");
    let told = bench.run(&["inspect", text(&plugin), "--wit"]).well();
    assert!(
        told.out.starts_with("package root:component;\n"),
        "{}",
        told.out
    );
    for part in [
        "  import wasmount:csi/pool@0.1.0;\n",
        "  export wasmount:csi/node-stage@0.1.0;\n",
        "package wasmount:csi@0.1.0 {\n",
    ] {
        assert!(told.out.contains(part), "{part}: {}", told.out);
    }
}

#[test]
fn a_signature_beside_the_file_is_reported() {
    let bench = Bench::new();
    let plugin = bench.path("plugin.wasm");
    fs::copy(component("directory"), &plugin).unwrap();
    let signature = bench.file("plugin.wasm.sig", "MEUC");
    let found = bench
        .run(&["inspect", text(&plugin), "--json"])
        .well()
        .json();
    assert_eq!(
        found["signatures"],
        json!({
            "places": [text(&signature)],
            "word": "not-asked",
            "said": [],
            "passedOver": ["the .sig file is no signature in base64; was it cut off?"],
        })
    );
}

#[test]
fn privileged_plugins_in_c_and_go_are_served_alike() {
    needs_root();
    let workspace = Workspace::locate().unwrap();
    for language in Language::COMPILED {
        let built = language::build(&workspace, language).unwrap();
        let plugin = built.component;
        let bench = Bench::new();
        let found = bench
            .run(&["inspect", text(&plugin), "--json"])
            .well()
            .json();
        assert_eq!(found["verdict"]["word"], "serves", "{found:#}");
        assert_eq!(found["verdict"]["needs"], json!([]));
        assert_eq!(
            found["services"],
            json!(["controller", "controller-expand", "capacity", "node-stage"])
        );
        let words = ["call", text(&plugin), "Probe", "--json"];
        assert_eq!(bench.run(&words).well().json()["codeName"], "OK");
    }
}
