//! `wasmount call --http-record` with an array, and `--http-replay` without it.

use crate::looking_inside::program::{Bench, Told, component, text};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use wasmount_tests::array::{Array, ArrayOptions, PASSWORD, TOKEN_PREFIX, USER};
use wasmount_tests::documents;

/// A volume of the array, mounted, for one writer.
fn create(name: &str) -> String {
    let capability = "{mount: {}, access_mode: {mode: SINGLE_NODE_WRITER}}";
    format!("{{name: {name}, volume_capabilities: [{capability}]}}")
}

fn call(bench: &Bench, document: &Path, request: &str, more: &[&str]) -> Told {
    let (plugin, cache) = (component("array"), bench.path("cache"));
    let mut words = vec!["call", text(&plugin), "CreateVolume", request];
    words.extend(["--backend", text(document), "--cache", text(&cache)]);
    words.extend(more);
    bench.run(&words)
}

/// Records the creation of the volume `a`; the array is gone afterwards, and so is its password.
async fn recorded(bench: &Bench) -> (std::path::PathBuf, std::path::PathBuf, Value) {
    let array = Array::start(ArrayOptions::default()).await.unwrap();
    let document = documents::array_at(&bench.path(""), array.address()).unwrap();
    let tape = bench.path("tape.json");
    let told = tokio::task::block_in_place(|| {
        let words = ["--http-record", text(&tape), "--json"];
        call(bench, &document, &create("a"), &words).well()
    });
    assert_eq!(array.counts().refused_logins, 0);
    drop(array);
    for secret in ["user", "password"] {
        fs::remove_file(bench.path(secret)).unwrap();
    }
    (document, tape, told.json())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_reports_what_the_recorded_call_did() {
    let bench = Bench::new();
    let (document, tape, recorded) = recorded(&bench).await;
    let created = json!({ "request": "POST http://array/api/volumes", "outcome": "201" });
    let http = recorded["http"].as_array().unwrap();
    assert!(http.contains(&created), "{http:?}");
    let mode = fs::metadata(&tape).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let file = fs::read_to_string(&tape).unwrap();
    for secret in [USER, PASSWORD, TOKEN_PREFIX, "/api/session"] {
        assert!(!file.contains(secret), "{secret}: {file}");
    }
    let words = ["--http-replay", text(&tape), "--json"];
    let replayed = call(&bench, &document, &create("a"), &words).well().json();
    for key in [
        "rpc",
        "code",
        "message",
        "responses",
        "plans",
        "state",
        "log",
        "http",
    ] {
        assert_eq!(recorded[key], replayed[key], "{key}");
    }
    let words = ["--http-replay", text(&tape)];
    let shown = call(&bench, &document, &create("a"), &words).well().out;
    assert!(
        shown.contains("POST http://array/api/volumes: 201"),
        "{shown}"
    );
    // Without either flag the report is as it was, and the secrets are needed.
    let plain = call(&bench, &document, &create("a"), &["--json"]);
    assert_eq!(plain.code, Some(1));
    assert!(plain.err.contains("a secret cannot be read"), "{plain:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_of_another_call_fails_with_both_lines() {
    let bench = Bench::new();
    let (document, tape, _) = recorded(&bench).await;
    let words = ["--http-replay", text(&tape), "--json"];
    let told = call(&bench, &document, &create("b"), &words);
    assert_eq!(told.code, Some(1), "{told:?}");
    assert_ne!(told.json()["code"], 0);
    for line in [
        "request 1 is not the recorded one",
        "recorded: GET http://array/api/volumes?name=a",
        "sent:     GET http://array/api/volumes?name=b",
    ] {
        assert!(told.err.contains(line), "{line}: {}", told.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_stays_within_the_grants() {
    let bench = Bench::new();
    let (document, tape, _) = recorded(&bench).await;
    let narrow = fs::read_to_string(&document).unwrap();
    let narrow = narrow.replace(
        "paths: [\"/api/\"]",
        "paths: [\"/other/\", \"/api/session\"]",
    );
    fs::write(&document, narrow).unwrap();
    let words = ["--http-replay", text(&tape), "--json"];
    let told = call(&bench, &document, &create("a"), &words);
    assert_eq!(told.code, Some(1), "{told:?}");
    let answer = told.json();
    assert_eq!(answer["codeName"], "PERMISSION_DENIED", "{answer:#}");
    assert_eq!(answer["http"], json!([]));
}

/// Only the host knows the address and the cause: the plugin gets a code of `wasi:http`.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_an_answer_is_explained_in_the_log() {
    let bench = Bench::new();
    let array = Array::start(ArrayOptions::default()).await.unwrap();
    let address = array.address();
    let document = documents::array_at(&bench.path(""), address).unwrap();
    drop(array);
    let told = tokio::task::block_in_place(|| call(&bench, &document, &create("a"), &["--json"]));
    assert_eq!(told.code, Some(1), "{told:?}");
    let answer = told.json();
    assert_eq!(answer["codeName"], "UNAVAILABLE", "{answer:#}");
    let line = &answer["log"][0];
    assert_eq!(line["level"], "WARN", "{answer:#}");
    let why = format!("a request of the plugin failed: no connection to {address}: ");
    let text = line["text"].as_str().unwrap();
    assert!(text.starts_with(&why), "{text}");
    assert!(text.contains("Connection refused"), "{text}");
}

#[test]
fn a_tape_that_cannot_be_read_is_refused_with_64() {
    let bench = Bench::new();
    let address = std::net::SocketAddr::from(([192, 0, 2, 1], 9));
    let document = documents::array_at(&bench.path(""), address).unwrap();
    let foreign = bench.file("foreign.json", "{\"a\": 1}");
    let newer = bench.file("newer.json", "{\"format\": 2, \"exchanges\": []}");
    for (words, part) in [
        (
            vec!["--http-replay", "/nowhere"],
            "--http-replay /nowhere: cannot be read",
        ),
        (
            vec!["--http-replay", text(&foreign)],
            "is not a recorded conversation",
        ),
        (vec!["--http-replay", text(&newer)], "has the format 2"),
        (
            vec!["--http-replay", text(&newer), "--http-record", "/nowhere"],
            "cannot be used with",
        ),
    ] {
        let told = call(&bench, &document, &create("a"), &words);
        assert_eq!(told.code, Some(64), "{words:?}: {told:?}");
        assert!(told.err.contains(part), "{part}: {}", told.err);
    }
    let plugin = component("array");
    let told = bench.run(&["call", text(&plugin), "Probe", "--http-record", "/nowhere"]);
    assert_eq!(told.code, Some(64), "{told:?}");
    assert!(told.err.contains("--backend <FILE>"), "{}", told.err);
}
