//! Environment variables that were set for another command, or are unused: none of them affects a command.

use crate::{DOCUMENT, said};
use std::path::Path;
use std::process::{Command, Output};

/// Runs a command in a folder of files, with one variable and without it.
fn outputs(words: &[&str], variable: (&str, &str)) -> [Output; 2] {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("backend.yaml"), DOCUMENT).unwrap();
    [None, Some(variable)].map(|variable| run(folder.path(), words, variable))
}

fn run(folder: &Path, words: &[&str], variable: Option<(&str, &str)>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wasmount"));
    command.args(words).current_dir(folder).envs(variable);
    command.output().unwrap()
}

#[test]
fn a_variable_of_another_command_changes_nothing() {
    for (words, variable, code) in [
        (
            &["inspect", "no.wasm", "--wit"][..],
            ("WASMOUNT_JSON", "0"),
            1,
        ),
        (
            &["inspect", "no.wasm", "--wit"],
            ("WASMOUNT_BACKEND", "backend.yaml"),
            1,
        ),
        (&["inspect", "no.wasm"], ("WASMOUNT_SECRET", "a=b"), 1),
        (
            &["call", "no.wasm", "Probe", "--pools", "p"],
            ("WASMOUNT_TOUCH_POOLS", "false"),
            1,
        ),
        (
            &["call", "no.wasm", "Probe"],
            ("WASMOUNT_STATE", "kubernetes"),
            1,
        ),
        (
            &["manifests", "--as-object", "--backend", "backend.yaml"],
            ("WASMOUNT_CRD", "0"),
            0,
        ),
        (
            &["manifests", "--crd"],
            ("WASMOUNT_STORAGE_BACKENDS", "a=b"),
            0,
        ),
        (
            &["load", "no.tar", "--to", "oci://a.b/c:1"],
            ("WASMOUNT_OUTPUT", "c.wasm"),
            1,
        ),
        (&["load", "no.tar"], ("WASMOUNT_TO", "3"), 1),
        (
            &["rollback", "a.example", "--data-dir", "no"],
            ("WASMOUNT_TO", "oci://a.b/c:1"),
            1,
        ),
        (
            &["rollback", "a.example", "--data-dir", "no"],
            ("WASMOUNT_FROM", "x"),
            1,
        ),
    ] {
        let [without, with] = outputs(words, variable);
        assert_eq!(said(&without), said(&with), "{variable:?}");
        assert_eq!(without.stdout, with.stdout, "{variable:?}");
        assert_eq!(
            with.status.code(),
            Some(code),
            "{words:?}: {}",
            said(&with).1
        );
    }
}

#[test]
fn a_variable_that_contradicts_a_flag_is_named() {
    let [_, with] = outputs(&["inspect", "no.wasm", "--wit"], ("WASMOUNT_JSON", "1"));
    let (code, text) = said(&with);
    assert_eq!(code, Some(64), "{text}");
    assert!(
        text.contains("leave out --json, or unset WASMOUNT_JSON"),
        "{text}"
    );
}

#[test]
fn a_private_and_a_public_key_have_variables_of_their_own() {
    for (words, variable) in [
        (["sign", "no.wasm"], "WASMOUNT_SIGNING_KEY"),
        (["verify", "no.wasm"], "WASMOUNT_VERIFY_KEY"),
    ] {
        let [without, with] = outputs(&words, (variable, "no.key"));
        assert_eq!(said(&without).0, Some(64));
        assert!(
            said(&without).1.contains("--key <FILE>"),
            "{}",
            said(&without).1
        );
        assert!(said(&with).1.contains("no.key"), "{}", said(&with).1);
    }
}
