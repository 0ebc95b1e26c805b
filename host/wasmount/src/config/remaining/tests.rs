//! Documents with several errors: each independent one is reported, and none that follows from another.

use crate::config::load_one;
use std::fs;

const TOP: &str = "\
apiVersion: wasmount.io/v1alpha1
kind: StorageBackend
metadata: { name: directory }
";

/// The complaints about a document with this specification, which begins in line 4.
fn complaints(spec: &str) -> Vec<String> {
    complaints_of(&format!("{TOP}spec:\n{spec}"))
}

fn complaints_of(text: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.yaml");
    fs::write(&file, text).unwrap();
    let all = load_one(&file).unwrap_err().to_string();
    let prefix = format!("{}:", file.display());
    all.lines().map(|it| it.replace(&prefix, "")).collect()
}

#[test]
fn independent_errors_are_all_reported_in_order() {
    let found = complaints(
        "  driverName: a/b
  plugin: { path: x, digest: sha256:1 }
  settings: { port: 8080, user: \"8080\", on: true }
  secrets: { token: hunter2, key: { file: key } }
  limits: { time: 5, memory: 64MB, handles: 0 }
  grants:
    pools: { a: { path: ../a }, b: { path: b }, c: {} }
    filesystems: [{ type: nfs4 }]
    device: []
  versions: { keep: 0 }
  csiDriver: { fsGroupPolicy: Fil }
",
    );
    let keys: Vec<_> = found
        .iter()
        .map(|it| it.split(": ").take(2).collect::<Vec<_>>())
        .collect();
    let expected = [
        ["5", "spec.driverName"],
        ["6", "spec.plugin.digest"],
        ["7", "spec.settings.port"],
        ["7", "spec.settings.on"],
        ["8", "spec.secrets.token"],
        ["9", "spec.limits.time"],
        ["9", "spec.limits.memory"],
        ["9", "spec.limits.handles"],
        ["11", "spec.grants.pools.a.path"],
        ["11", "spec.grants.pools.c"],
        ["12", "spec.grants.filesystems[0].sources"],
        ["13", "spec.grants.device"],
        ["14", "spec.versions.keep"],
        ["15", "spec.csiDriver.fsGroupPolicy"],
    ];
    assert_eq!(keys.len(), expected.len(), "{found:#?}");
    for key in expected {
        assert!(
            keys.iter().any(|it| it.as_slice() == key),
            "{key:?} {found:#?}"
        );
    }
    assert!(!found.join("\n").contains("hunter2"));
}

#[test]
fn a_number_or_a_secret_in_place_is_told_the_right_form() {
    let place = "  driverName: a\n  plugin: { path: x }\n";
    for number in ["5", "5.5", "true"] {
        let found = complaints(&format!("{place}  limits: {{ time: {number} }}\n"));
        let reason = "7: spec.limits.time: must be a duration such as `60s` or `1m30s`";
        assert_eq!(found, [reason], "{number}");
    }
    let found = complaints(&format!("{place}  secrets: {{ token: hunter2 }}\n"));
    let reason = "7: spec.secrets.token: must say where the secret is, such as `{ file: /run/secrets/token }`; its value is not allowed here";
    assert_eq!(found, [reason]);
}

#[test]
fn the_top_of_a_document_may_be_all_wrong() {
    let found = complaints_of(
        "apiVersion: v1\nkind: Pod\nmetadata: { name: A }\nspec:\n  driverName: a\n  plugin: { path: x }\nstatus: {}\n",
    );
    assert_eq!(found.len(), 4, "{found:#?}");
}

#[test]
fn an_error_that_follows_from_another_is_not_reported() {
    for spec in [
        // A misspelt key is not also missing.
        "  driver: a\n  plugin: { path: x }\n",
        "  driverName: a\n  plugins: { path: x }\n",
        "  driverName: a\n  plugin: { paht: x }\n",
        "  driverName: a\n  plugin: { path: [x] }\n",
        "  driverName: a\n  plugin: { path: x }\n  grants: { filesystems: [{ type: nfs4, source: [a] }] }\n",
        // A secret that is wrong is not also unknown.
        "  driverName: a\n  plugin: { path: x }\n  secrets: { k: x }\n  grants: { sealing: { secret: k } }\n",
        "  driverName: a\n  plugin: { path: x }\n  secret: { k: { file: x } }\n  grants: { sealing: { secret: k } }\n",
        "  driverName: a\n  plugin: { path: x }\n  secrets: x\n  grants: { sealing: { secret: k } }\n",
        // Keys of one group may depend on each other.
        "  driverName: a\n  plugin: { path: x }\n  csiDriver: { tokenRequest: [], serviceAccountTokenInSecrets: true }\n",
    ] {
        let found = complaints(spec);
        assert_eq!(found.len(), 1, "{spec} {found:#?}");
    }
}

#[test]
fn a_document_of_errors_alone_is_reported_up_to_a_bound() {
    let settings: String = (0..1000).map(|it| format!("    k{it}: {it}\n")).collect();
    let spec = format!("  driverName: a\n  plugin: {{ path: x }}\n  settings:\n{settings}");
    assert_eq!(complaints(&spec).len(), super::ERRORS_MAX);
}

#[test]
fn a_text_that_is_no_mapping_has_one_error() {
    for text in [
        "",
        "[1]",
        "a: \"b",
        "a: 1\na: 2\n",
        "spec: 5\n",
        "spec: {a: *b}\n",
    ] {
        assert!(complaints_of(text).len() <= 3, "{text}");
    }
    assert_eq!(complaints_of("a: \"b").len(), 1);
}
