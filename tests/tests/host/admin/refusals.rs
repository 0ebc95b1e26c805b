//! Each step of an admission in its order, as an administrator meets it who swaps: what is said, what to do, and that the version that serves
//! does not notice.

use crate::admin::scene::{DRIVER, Scene};
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use wasmount_tests::builds::{build_of, put};
use wasmount_tests::host::HostOptions;
use wasmount_tests::keys::key_pair;
use wasmount_tests::orchestrator::Orchestrator;
use xtask::workspace::Workspace;

/// One byte more than the largest component that is read.
const TOO_LARGE: u64 = (64 << 20) + 1;
/// More than any refusal says, in bytes, whatever the component is.
pub(crate) const SAID_BYTES: usize = 10 << 10;
/// What a component begins with, and a core module (component model, `Binary.md`).
pub(crate) const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
const CORE_MODULE: &[u8] = b"\0asm\x01\0\0\0";
/// The same, in an unsigned file and in one that `acme` has signed.
const UNSIGNED_CORE: &str = "unsigned-core.wasm";
const SIGNED_CORE: &str = "signed-core.wasm";
/// Sections of a component end with it; this one says that it is longer than the file.
const CUT_OFF: &[u8] = b"\0asm\x0d\0\x01\0\x01\x7f";

/// What an administrator requests.
pub(crate) enum Wish {
    /// `swap --file` of these bytes.
    Bytes(Vec<u8>),
    /// `swap --file` of a file that is so large.
    Length(u64),
    /// `swap` to the document, with this in the place of `{ path: .. }` of its plugin (`PATH` stands for that) and these lines more.
    Document(&'static str, &'static str),
}

/// One refusal.
pub(crate) struct Row {
    kind: &'static str,
    wish: Wish,
    /// What is wrong, and what to do.
    said: [&'static str; 2],
}

/// All that the table refuses.
const KINDS: [&str; 13] = [
    "size",
    "digest",
    "signature",
    "not_a_component",
    "compile",
    "api_line",
    "imports",
    "trial_load",
    "limits",
    "features",
    "services",
    "settings",
    "probe",
];

/// As the document has it.
const PLUGIN: &str = "{ path: PATH }";

pub(crate) fn row(kind: &'static str, wish: Wish, said: [&'static str; 2]) -> Row {
    Row { kind, wish, said }
}

fn built(plugin: &str) -> Vec<u8> {
    build_of(plugin, "other").unwrap()
}

/// plugins/misbehave that names another line of the contract.
fn of_another_line() -> Vec<u8> {
    let (from, to) = (b"csi/identity@0.1.0", b"csi/identity@0.2.0");
    let mut wasm = built("misbehave");
    let mut found = 0;
    for at in 0..wasm.len() - from.len() {
        if wasm[at..].starts_with(from) {
            wasm[at..at + from.len()].copy_from_slice(to);
            found += 1;
        }
    }
    assert!(found > 0);
    wasm
}

/// Up to the trial load: it does not matter what serves.
fn before_it_runs() -> Vec<Row> {
    vec![
        row(
            "size",
            Wish::Length(TOO_LARGE),
            ["is larger than 67108864 bytes", "strip it"],
        ),
        row(
            "digest",
            Wish::Document(
                "{ path: PATH, digest: \"sha256:0000000000000000000000000000000000000000000000000000000000000000\" }",
                "",
            ),
            ["the document wants sha256:0000", "correct plugin.digest"],
        ),
        row(
            "signature",
            Wish::Document(
                "{ path: PATH, verify: { anyOf: [{ file: acme.pub }] } }",
                "",
            ),
            [
                "has no signature, and one by",
                "sign it with `wasmount sign` or cosign",
            ],
        ),
        // Who signed it comes before what it is.
        row(
            "signature",
            Wish::Document(
                "{ path: unsigned-core.wasm, verify: { anyOf: [{ file: acme.pub }] } }",
                "",
            ),
            [
                "has no signature, and one by",
                "sign it with `wasmount sign` or cosign",
            ],
        ),
        row(
            "not_a_component",
            Wish::Document(
                "{ path: signed-core.wasm, verify: { anyOf: [{ file: acme.pub }] } }",
                "",
            ),
            ["is a core module", "build it for the target wasm32-wasip2"],
        ),
        row(
            "not_a_component",
            Wish::Bytes(b"no component".to_vec()),
            ["is not WebAssembly", "give the .wasm file"],
        ),
        row(
            "not_a_component",
            Wish::Bytes(CORE_MODULE.to_vec()),
            ["is a core module", "build it for the target wasm32-wasip2"],
        ),
        row(
            "compile",
            Wish::Bytes(CUT_OFF.to_vec()),
            ["the component does not compile", "fetch the file again"],
        ),
        row(
            "api_line",
            Wish::Bytes(of_another_line()),
            [
                "is built for version 0.2.0 of the contract (wasmount:csi/identity@0.2.0), this host for version 0.1",
                "build the plugin with the SDK of 0.1",
            ],
        ),
        row(
            "imports",
            Wish::Bytes(built("insistent")),
            ["imports what this host does not offer", "spec.plugin.wasi"],
        ),
        row(
            "trial_load",
            Wish::Bytes(EMPTY_COMPONENT.to_vec()),
            [
                "does not export `wasmount:csi/identity`",
                "`wasmount_guest::export!`",
            ],
        ),
    ]
}

/// What only a plugin that runs can be refused for; plugins/misbehave serves.
fn once_it_runs() -> Vec<Row> {
    vec![
        row(
            "trial_load",
            Wish::Document(PLUGIN, "  settings: { behaviour: trap-at-admission }\n"),
            [
                "does not report its identity",
                "this is a fault of the plugin",
            ],
        ),
        row(
            "limits",
            Wish::Document(PLUGIN, "  limits: { tableElements: 1000000000 }\n"),
            ["limits.tableElements is 1000000000", "restart the host"],
        ),
        row(
            "features",
            Wish::Document(PLUGIN, "  settings: { behaviour: unknown-feature }\n"),
            [
                "did you mean `clone-volume`",
                "correct it, or use a newer host",
            ],
        ),
        row(
            "services",
            Wish::Bytes(built("directory")),
            [
                "does not offer what the running version does: ",
                "--allow-service-change and restart the sidecars",
            ],
        ),
        row(
            "settings",
            Wish::Document(PLUGIN, "  settings: { behaviour: bad-settings }\n"),
            [
                "does not accept its settings: `endpoint` is missing",
                "correct `settings`, `secrets` or `grants`",
            ],
        ),
        row(
            "probe",
            Wish::Document(PLUGIN, "  settings: { behaviour: trap-in-probe }\n"),
            [
                "does not report whether it is ready",
                "this is a fault of the plugin",
            ],
        ),
        row(
            "secret",
            Wish::Document(PLUGIN, "  secrets: { password: { file: missing } }\n"),
            ["password", "missing"],
        ),
    ]
}

/// Asks for it; what is said on standard error.
fn refused(scene: &Scene, document: &str, wish: &Wish) -> String {
    let file = scene.folder.path().join("candidate.wasm");
    let by_file = ["swap", DRIVER, "--file", file.to_str().unwrap()];
    match wish {
        Wish::Bytes(bytes) => put(bytes, &file).unwrap(),
        Wish::Length(length) => {
            let _ = fs::remove_file(&file);
            File::create(&file).unwrap().set_len(*length).unwrap();
        }
        Wish::Document(plugin, lines) => {
            let path = format!("{:?}", scene.component);
            let plain = PLUGIN.replace("PATH", &path);
            assert!(document.contains(&plain), "{document}");
            let plugin = plugin.replace("PATH", &path);
            scene.rewrite_with(&(document.replace(&plain, &plugin) + lines));
            return scene.refused(&["swap", DRIVER]);
        }
    }
    scene.refused(&by_file)
}

/// A whole life of a volume, with the version that serves.
async fn lives(orchestrator: &Orchestrator, number: usize) {
    // plugins/misbehave has volumes in its pool whose name has a dot.
    let volume = orchestrator.created(&format!("fine.{number}")).await;
    let volume = volume.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
}

/// The version that serves, without `proven`, which becomes true with time.
fn serving_version(scene: &Scene) -> Value {
    let mut version = scene.status()["version"].clone();
    assert!(version["proven"].take().is_boolean(), "{version:#}");
    version
}

/// Each is refused for what it is, in words, and nothing else happens.
pub(crate) async fn all_refused(scene: &Scene, rows: Vec<Row>) {
    let document = fs::read_to_string(&scene.document).unwrap();
    let before = serving_version(scene);
    let orchestrator = scene.orchestrator().await;
    let staged = orchestrator.created("fine.staged").await.unwrap();
    orchestrator.set_up(&staged).await.unwrap();
    for (index, Row { kind, wish, said }) in rows.into_iter().enumerate() {
        let error = refused(scene, &document, &wish);
        for words in said {
            assert!(error.contains(words), "{kind}: `{words}`: {error}");
        }
        assert!(error.contains(&format!("({kind})")), "{kind}: {error}");
        assert!(error.len() < SAID_BYTES, "{kind}: {} bytes", error.len());
        let status = scene.status();
        assert_eq!(status["refused"]["kind"], kind, "{status:#}");
        let reason = status["refused"]["reason"].as_str().unwrap();
        assert!(reason.len() < SAID_BYTES, "{kind}: {} bytes", reason.len());
        assert_eq!(serving_version(scene), before, "{kind}");
        assert_eq!(status["notReady"], Value::Null, "{kind}");
        lives(&orchestrator, index).await;
        // What is wanted is what serves: nothing is refused any more.
        scene.rewrite_with(&document);
        let said = scene.done(&["swap", DRIVER]);
        assert!(said.contains("serves already"), "{kind}: {said}");
        let status = scene.status();
        assert_eq!(
            (&status["phase"], &status["refused"]),
            (&"serving".into(), &Value::Null),
            "{kind}: {status:#}"
        );
    }
    assert_eq!(scene.status()["faults"], 0);
    orchestrator.tear_down(&staged).await.unwrap();
}

/// What `history` says was refused.
pub(crate) fn remembered(scene: &Scene) -> Vec<Value> {
    let history = scene.done(&["history", DRIVER, "--json"]);
    let history: Value = serde_json::from_str(&history).unwrap();
    history["refusals"].as_array().unwrap().clone()
}

/// A pair of keys of `acme`, and the two core modules.
fn sign_one(folder: &Path) {
    for file in [UNSIGNED_CORE, SIGNED_CORE] {
        fs::write(folder.join(file), CORE_MODULE).unwrap();
    }
    key_pair(folder, "acme", "correct horse").unwrap();
    let made = Command::new(Workspace::locate().unwrap().host_program())
        .args(["sign", SIGNED_CORE, "--key", "acme.key"])
        .env("WASMOUNT_KEY_PASSWORD", "correct horse")
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_each_failed_admission_step_names_its_cause() {
    let scene = Scene::serving("misbehave", HostOptions::default());
    sign_one(scene.folder.path());
    let rows = before_it_runs().into_iter().chain(once_it_runs()).collect();
    all_refused(&scene, rows).await;
    // None of them was a version, and each is remembered: also after a restart.
    assert_eq!(scene.status()["version"]["number"], 1);
    let remembered = remembered(&scene);
    for kind in KINDS {
        let found = remembered.iter().find(|it| it["kind"] == kind);
        let found = found.unwrap_or_else(|| panic!("{kind}: {remembered:#?}"));
        assert!(found["times"].as_u64().unwrap() >= 1, "{found:#}");
        assert!(found["origin"].as_str().unwrap().ends_with(".wasm"));
    }
    let table = scene.done(&["history", DRIVER]);
    assert!(table.contains("REJECTED"), "{table}");
    let mut scene = scene;
    scene.host.terminate().unwrap();
    scene.host.restart().unwrap();
    scene.serves(1);
    assert_eq!(self::remembered(&scene), remembered);
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_another_plugin_or_lost_feature_is_rejected() {
    let scene = Scene::start();
    let wish = || Wish::Bytes(built("misbehave"));
    // It has every service of plugins/directory, and lacks one feature of it.
    let said = [
        "does not offer what the running version does: SINGLE_NODE_MULTI_WRITER;",
        "--allow-service-change",
    ];
    let lacking = row("services", wish(), said);
    // It has all of plugins/directory, and is another one.
    let said = [
        "is another plugin than directory.wasmount.io, whose volumes and records the driver has",
        "correct what `plugin` of the document names",
    ];
    let foreign = row("services", Wish::Bytes(built("hostpath")), said);
    all_refused(&scene, vec![foreign, lacking]).await;
    // The last that was refused.
    let other = scene.folder.path().join("candidate.wasm");
    let file = other.to_str().unwrap();
    scene.done(&["swap", DRIVER, "--allow-service-change", "--file", file]);
    assert_eq!(scene.status()["version"]["number"], 2);
}
