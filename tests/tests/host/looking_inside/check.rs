//! `wasmount check`: each step of admission, with what became of it.

use crate::looking_inside::program::{Bench, component, text};
use serde_json::{Value, json};
use std::fs;

/// The steps of admission, in their order.
const STEPS: [&str; 11] = [
    "size",
    "digest",
    "signature",
    "component",
    "api line",
    "imports",
    "compile",
    "trial load",
    "services",
    "settings",
    "probe",
];

/// A public key on P-256, whose private half was not kept.
const KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEzKh26UaTb8z8Iu4tBm+PSWh2qhdK
zv2WmPd7snYSfTZFRLoHEke+FnGICpIn6/uJaoPJxKuBfBhQ/GEKUJ+P7g==
-----END PUBLIC KEY-----
";

/// Steps and outcomes.
fn outcomes(checked: &Value) -> Vec<(&str, &str)> {
    let steps = checked["steps"].as_array().unwrap().iter();
    steps
        .map(|it| {
            (
                it["step"].as_str().unwrap(),
                it["outcome"].as_str().unwrap(),
            )
        })
        .collect()
}

fn check(bench: &Bench, plugin: &str, document: &str, serves: bool) -> Value {
    let words = ["check", plugin, "--backend", document, "--json"];
    let told = bench.run(&words);
    assert_eq!(told.code, Some(if serves { 0 } else { 1 }), "{told:?}");
    let checked = told.json();
    assert_eq!(checked["serves"], json!(serves));
    checked
}

/// Refused at a step, with those before it well and those after it not taken.
#[track_caller]
fn assert_refused_at(checked: &Value, step: &str, kind: &str, part: &str) {
    let at = STEPS.iter().position(|it| *it == step).unwrap();
    let expected: Vec<_> = STEPS
        .iter()
        .enumerate()
        .map(|(index, step)| match index.cmp(&at) {
            std::cmp::Ordering::Less => (*step, "ok"),
            std::cmp::Ordering::Equal => (*step, "refused"),
            std::cmp::Ordering::Greater => (*step, "skipped"),
        })
        .collect();
    assert_eq!(outcomes(checked), expected, "{checked:#}");
    assert_eq!(checked["kind"], kind, "{checked:#}");
    let reason = checked["reason"].as_str().unwrap();
    assert!(reason.contains(part), "{reason}");
}

#[test]
fn a_plugin_that_would_serve_passes_each_step() {
    let bench = Bench::new();
    let plugin = component("hostpath");
    let document = bench.document(
        &plugin,
        "  grants: { pools: { volumes: { path: pools/checked } } }\n",
    );
    let checked = check(&bench, text(&plugin), text(&document), true);
    let expected: Vec<_> = STEPS.iter().map(|step| (*step, "ok")).collect();
    assert_eq!(outcomes(&checked), expected);
    assert_eq!(checked["warnings"], json!([]));
    let times = checked["steps"].as_array().unwrap().iter();
    assert!(
        times
            .map(|it| it["microseconds"].as_u64().unwrap())
            .sum::<u64>()
            > 0
    );
}

#[test]
fn the_text_form_has_a_line_for_each_step() {
    let bench = Bench::new();
    let plugin = component("directory");
    let document = bench.document(
        &plugin,
        "  grants: { pools: { volumes: { path: pools/checked } } }\n",
    );
    let words = ["check", text(&plugin), "--backend", text(&document)];
    let told = bench.run(&words).well();
    let labels: Vec<_> = told.out.lines().filter_map(|line| line.get(..10)).collect();
    for (label, step) in labels.iter().zip(STEPS) {
        assert_eq!(label.trim(), step, "{}", told.out);
    }
    assert!(
        told.out.contains("verdict     this host would serve it\n"),
        "{}",
        told.out
    );
}

#[test]
fn imports_without_a_grant_are_refused_with_the_lines_to_add() {
    let bench = Bench::new();
    let array: &[&str] = &[
        "spec: {grants: {network: {NAME: {hosts: [\"HOST:443\"]}}}}",
        "spec: {grants: {attach: [{protocol: iscsi, portals: [\"ADDRESS:3260\"], targets: [IQN]}]}}",
        "spec: {grants: {attach: [{protocol: nvme-tcp, addresses: [\"ADDRESS:4420\"], subsystems: [NQN]}]}}",
        "spec: {grants: {nodes: [iqn, nqn, addresses]}}",
    ];
    let protocol = "  settings: { protocol: iscsi }\n";
    let directory: &[&str] = &["spec: {grants: {pools: {NAME: {path: DIRECTORY}}}}"];
    for (plugin, settings, lines) in [("directory", "", directory), ("array", protocol, array)] {
        let plugin = component(plugin);
        let document = bench.document(&plugin, settings);
        let words = ["check", text(&plugin), "--backend", text(&document)];
        let told = bench.run(&words);
        assert_eq!(told.code, Some(1), "{told:?}");
        let verdict = "verdict     the document does not grant what it imports\n";
        assert!(told.out.contains(verdict), "{}", told.out);
        for line in lines {
            assert!(told.out.contains(line), "{}", told.out);
        }
        // A host serves it: an import is no proof of use.
        let checked = bench.run(&[&words[..], &["--json"]].concat());
        assert_eq!(checked.code, Some(1), "{checked:?}");
        let checked = checked.json();
        assert_eq!(checked["serves"], json!(true), "{checked:#}");
        let ungranted = checked["ungranted"].as_array().unwrap();
        assert_eq!(ungranted.len(), lines.len(), "{checked:#}");
        for (said, line) in ungranted.iter().zip(lines) {
            assert!(said.as_str().unwrap().contains(line), "{checked:#}");
        }
    }
}

#[test]
fn each_refusal_ends_the_steps_where_it_belongs() {
    let bench = Bench::new();
    let directory = component("directory");
    let directory = text(&directory);
    let insistent = component("insistent");
    let hostpath = component("hostpath");
    let stranger = bench.file("stranger.wasm", b"\0asm\x0d\0\x01\0");
    let core = bench.file("core.wasm", b"\0asm\x01\0\0\0");
    let large = bench.path("large.wasm");
    fs::File::create(&large)
        .unwrap()
        .set_len((64 << 20) + 1)
        .unwrap();
    for (file, plugin_keys, more, step, kind, part) in [
        (
            text(&large),
            "",
            "",
            "size",
            "size",
            "larger than 67108864 bytes",
        ),
        (
            "/nowhere.wasm",
            "",
            "",
            "size",
            "source",
            "No such file or directory",
        ),
        (
            directory,
            ", digest: \"sha256:0000000000000000000000000000000000000000000000000000000000000000\"",
            "",
            "digest",
            "digest",
            "the document wants sha256:0000",
        ),
        (
            directory,
            ", verify: { anyOf: [{ file: key.pub }] }",
            "",
            "signature",
            "signature",
            "has no signature, and one by",
        ),
        (
            text(&core),
            ", verify: { anyOf: [{ file: key.pub }] }",
            "",
            "signature",
            "signature",
            "has no signature, and one by",
        ),
        (
            text(&core),
            "",
            "",
            "component",
            "not_a_component",
            "is a core module",
        ),
        (
            text(&insistent),
            "",
            "",
            "imports",
            "imports",
            "set spec.plugin.wasi to `full`",
        ),
        (
            text(&stranger),
            "",
            "",
            "trial load",
            "trial_load",
            "does not export `wasmount:csi/identity`",
        ),
        (
            text(&hostpath),
            "",
            "  settings: { maxVolumesPerNode: \"many\" }\n",
            "settings",
            "settings",
            "does not accept its settings",
        ),
    ] {
        bench.file("key.pub", KEY);
        let text_of = format!(
            "apiVersion: wasmount.io/v1alpha1\nkind: StorageBackend\nmetadata: {{ name: checked }}\nspec:\n  \
             driverName: checked.wasmount.io\n  plugin: {{ path: plugin.wasm{plugin_keys} }}\n{more}"
        );
        let document = bench.file("checked.yaml", text_of);
        let checked = check(&bench, file, text(&document), false);
        assert_refused_at(&checked, step, kind, part);
    }
}
