//! The binary as a script uses it: exit codes, and the one-line error message. Every command here ends before it serves.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may end where it fails"
)]

mod files;
mod places;
mod variables;

use std::process::{Command, Output};

const DOCUMENT: &str = "\
apiVersion: wasmount.io/v1alpha1
kind: StorageBackend
metadata: { name: directory }
spec:
  driverName: directory.wasmount.io
  plugin: { path: plugin.wasm }
";

fn wasmount(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wasmount"))
        .args(words)
        .output()
        .unwrap()
}

/// Exit code and standard error.
fn said(output: &Output) -> (Option<i32>, String) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), text)
}

/// Serves `document` with valid flags; `more` flags are appended.
fn serve(document: &str, more: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let file = folder.join("backend.yaml");
    std::fs::write(&file, document).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    let (file, data, run, sockets) = (path("backend.yaml"), path("data"), path("run"), path("s"));
    let mut words = vec!["serve", "--backend", &file];
    let flags = [
        ("--role", "controller"),
        ("--data-dir", &data),
        ("--run-dir", &run),
        ("--socket-dir", &sockets),
        ("--listen-health", "off"),
    ];
    for (flag, value) in flags {
        if !more.contains(&flag) {
            words.extend([flag, value]);
        }
    }
    words.extend(more);
    let (code, text) = said(&wasmount(&words));
    (code, text.replace(&format!("{}/", folder.display()), ""))
}

#[test]
fn the_version_names_host_engine_and_contract() {
    let output = wasmount(&["--version"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "wasmount 0.1.0 (wasmtime 48, contract wasmount:csi@0.1.0)\n"
    );
}

#[test]
fn manifests_that_no_cluster_takes_are_not_printed() {
    for (flag, value) in [
        ("--namespace", "A B"),
        ("--image", ""),
        ("--image", "a\nb"),
        ("--sidecar-registry", "a b"),
        ("--health-port", "0"),
        ("--fs-type", "bogus"),
    ] {
        let output = wasmount(&["manifests", "--backend", "b.yaml", flag, value]);
        let (code, text) = said(&output);
        assert_eq!(code, Some(64), "{flag} {value:?}: {text}");
        assert!(text.contains(flag), "{text}");
        assert_eq!(output.stdout, b"");
    }
}

#[test]
fn a_node_set_is_printed_from_documents_alone() {
    let folder = tempfile::tempdir().unwrap();
    // Its component is nowhere.
    let write = |name: &str, driver: &str| {
        let file = folder.path().join(format!("{name}.yaml"));
        let named = DOCUMENT.replace("{ name: directory }", &format!("{{ name: {name} }}"));
        std::fs::write(&file, named.replace("directory.wasmount.io", driver)).unwrap();
        file.display().to_string()
    };
    let [a, b, c] = [("a", "a.example"), ("b", "b.example"), ("c", "a.example")]
        .map(|(name, driver)| write(name, driver));
    let node_set = |second: &str| {
        wasmount(&[
            "manifests",
            "--node-set",
            "--backend",
            &a,
            "--backend",
            second,
        ])
    };
    let output = node_set(&b);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said(&output), (Some(0), String::new()));
    assert_eq!(text.matches("kind: DaemonSet\n").count(), 1);
    for part in [
        "a.yaml: ",
        "b.yaml: ",
        "driverName: a.example",
        "driverName: b.example",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    for kind in ["CSIDriver", "Deployment", "StorageBackend", "StorageClass"] {
        assert!(!text.contains(&format!("\nkind: {kind}\n")), "{kind}");
    }
    let (code, text) = said(&node_set(&c));
    assert_eq!(code, Some(64), "{text}");
    assert!(text.contains("`a.example` is the driver of"), "{text}");
}

#[test]
fn credentials_in_a_document_are_not_repeated() {
    let path = "plugin: { path: plugin.wasm }";
    let reference = "plugin: { reference: 'oci://ann:hunter2@a.b/c:1' }";
    let (code, text) = serve(&DOCUMENT.replace(path, reference), &[]);
    assert_eq!(code, Some(64), "{text}");
    assert!(text.contains("spec.plugin.reference"), "{text}");
    assert!(text.contains("registry.credentials"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn help_is_asked_for_with_success_and_has_an_example() {
    let output = wasmount(&["serve", "--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(help.contains("$ wasmount serve --backend"), "{help}");
}

#[test]
fn wrong_flags_end_with_64_and_name_the_flag() {
    for (words, part) in [
        (&[][..], "Usage: wasmount"),
        (
            &["manifets"],
            "tip: some similar subcommands exist: 'man', 'manifests'",
        ),
        (&["serve"], "--backend <FILE>"),
        (
            &["serve", "--bakend", "x"],
            "tip: a similar argument exists: '--backend'",
        ),
        (
            &["serve", "--backend", "x", "--role", "boss"],
            "possible values: all, node, controller",
        ),
        (
            &["serve", "--backend", "x", "--log", "wasmount=loud"],
            "such as `info`",
        ),
        (
            &["serve", "--backend", "x", "--log", "verbose"],
            "`verbose` is no level; the levels are off, error, warn, info, debug, trace",
        ),
        (
            &["serve", "--backend", "x", "--log", "debgu"],
            "did you mean `debug`?",
        ),
        (
            &["serve", "--backend", "x", "--listen-health", "here"],
            "`127.0.0.1:9809`, a port, which is one of 127.0.0.1, or `off`",
        ),
        (
            &["serve", "--backend", "x", "--node-id", ""],
            "node id is empty",
        ),
        (&["serve", "--backend", "x", "--grace", "soon"], "--grace"),
        (
            &["serve", "--backend", "x", "--state", "redb"],
            "must be `local`, `kubernetes` or `kubernetes:`",
        ),
        (&["mounter"], "--backend-dir <DIR>"),
        (
            &["mounter", "--backend-dir", "/nowhere"],
            "--backend-dir /nowhere: is not an existing directory",
        ),
        (&["manifests", "--node-set"], "--backend <FILE>"),
        (
            &["manifests", "--backend", "x", "--backend", "y"],
            "--backend y: only --node-set takes several documents",
        ),
        (
            &["manifests", "--node-set", "--in-node-set", "--backend", "x"],
            "cannot be used with",
        ),
        (
            &[
                "manifests",
                "--node-set",
                "--backend",
                "x",
                "--topology=node-local",
            ],
            "--topology node-local: a node set serves volumes that every node reaches",
        ),
    ] {
        let (code, text) = said(&wasmount(words));
        assert_eq!(code, Some(64), "{words:?}: {text}");
        assert!(text.contains(part), "{words:?}: {text}");
    }
}

#[test]
fn wrong_documents_end_with_64_and_one_line_each() {
    assert_eq!(
        serve(&format!("{DOCUMENT}  grants: {{ pool: {{}} }}\n"), &[]),
        (
            Some(64),
            "wasmount: backend.yaml:7: spec.grants.pool: unknown key; did you mean `pools`?\n"
                .to_owned()
        )
    );
    assert_eq!(
        serve(DOCUMENT, &["--backend", "/nowhere.yaml"]),
        (
            Some(64),
            "wasmount: /nowhere.yaml: cannot be read: No such file or directory (os error 2)\n"
                .to_owned()
        )
    );
}
