//! What the program says of documents that it cannot serve.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test may end where it fails")]

use std::fs;
use std::process::Command;

/// Runs it with a document, or without the file; its exit code and what it says.
fn run(document: Option<&str>) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    if let Some(text) = document {
        fs::write(path("backend.yaml"), text).unwrap();
    }
    let mut twin = Command::new(env!("CARGO_BIN_EXE_native-twin"));
    for (flag, name) in [
        ("--backend", "backend.yaml"),
        ("--data-dir", "data"),
        ("--run-dir", "run"),
        ("--kubelet-dir", "kubelet"),
        ("--socket", "csi.sock"),
    ] {
        twin.arg(flag).arg(path(name));
    }
    let output = twin.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), said)
}

#[test]
fn a_document_that_is_missing_is_named() {
    let (code, said) = run(None);
    assert_eq!(code, Some(1));
    assert!(said.contains("backend.yaml"), "{said}");
}

#[test]
fn a_document_with_an_unknown_key_is_rejected() {
    let (code, said) = run(Some("apiVersion: wasmount.io/v1alpha1\nkinds: Pod\n"));
    assert_eq!(code, Some(1));
    assert!(said.contains("kinds"), "{said}");
}
