//! The API and the files of an array without a data path.

use crate::client::{Api, until};
use crate::program::{self, Program};
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wasmount_block_array::{Array, ArrayOptions};

/// Size of the volumes, in bytes, and what some of them hold in their middle.
const BYTES: u64 = 64 << 20;
const CONTENT: &[u8] = b"what a host wrote";
const MIDDLE: u64 = 32 << 20;

/// Units of the allocated size of a file (stat(3type), `st_blocks`).
const BLOCK: u64 = 512;

/// How long a request waits that must wait.
const MOMENT: Duration = Duration::from_millis(500);

async fn in_memory() -> (Array, Api) {
    let array = Array::start(ArrayOptions::default()).await.unwrap();
    let api = Api::log_in(array.address()).await;
    (array, api)
}

fn volume(name: &str) -> Value {
    json!({ "name": name, "bytes": BYTES })
}

fn file(directory: &Path, id: &str) -> PathBuf {
    directory.join("contents").join(id)
}

fn directory() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("array");
    (folder, directory)
}

#[tokio::test]
async fn a_lost_answer_is_of_a_request_that_was_carried_out() {
    let (_array, api) = in_memory().await;
    api.done("PUT", "/faults", json!({ "loseAnswers": 1 }))
        .await;
    let lost = api.ask("POST", "/api/volumes", volume("x")).await;
    assert!(lost.is_err(), "{lost:?}");
    let (status, _) = api.ask("POST", "/api/volumes", volume("x")).await.unwrap();
    assert_eq!(status, 409, "the first request was not carried out");
}

#[tokio::test]
async fn a_refused_request_is_not_carried_out() {
    let (array, api) = in_memory().await;
    let faults = json!({ "on": "POST /api/volumes", "refuse": 503 });
    api.done("PUT", "/faults", faults).await;
    let refused = api.ask("POST", "/api/volumes", volume("x")).await;
    assert_eq!(refused.unwrap().0, 503);
    assert_eq!(array.counts().created, 0);
    api.done("DELETE", "/faults", Value::Null).await;
    api.done("POST", "/api/volumes", volume("x")).await;
    let (status, _) = api
        .ask("PUT", "/faults", json!({ "refuse": 200 }))
        .await
        .unwrap();
    assert_eq!(status, 422);
}

#[tokio::test]
async fn a_delayed_request_waits_before_it_is_carried_out() {
    let (array, api) = in_memory().await;
    let faults =
        |milliseconds: u64| json!({ "on": "POST /api/volumes", "delayMilliseconds": milliseconds });
    // Longer than this test waits for anything.
    api.done("PUT", "/faults", faults(600_000)).await;
    let waiting = api.ask("POST", "/api/volumes", volume("x"));
    let answer = tokio::time::timeout(MOMENT, waiting).await;
    assert!(answer.is_err(), "{answer:?}");
    assert_eq!(array.counts().created, 0);
    // Other requests do not wait.
    api.done("GET", "/api/capacity", Value::Null).await;
    let delay = u64::try_from(MOMENT.as_millis()).unwrap();
    api.done("PUT", "/faults", faults(delay)).await;
    let begin = Instant::now();
    api.done("POST", "/api/volumes", volume("y")).await;
    assert!(begin.elapsed() >= MOMENT, "{:?}", begin.elapsed());
    let (status, _) = api.ask("PUT", "/faults", faults(600_001)).await.unwrap();
    assert_eq!(status, 422);
}

#[tokio::test]
async fn a_full_array_refuses_with_507_until_there_is_room() {
    let (_folder, directory) = directory();
    let capacity = (2 * BYTES).to_string();
    let program = Program::start(&directory, &["--capacity", &capacity]).await;
    let api = program.log_in().await;
    let first = api.create("volumes", volume("first")).await;
    let second = api.create("volumes", volume("second")).await;
    let path = format!("/api/volumes/{first}");
    for (method, path, body) in [
        (
            "POST",
            "/api/volumes",
            json!({ "name": "third", "bytes": 1 }),
        ),
        ("PATCH", &path, json!({ "bytes": BYTES + 1 })),
    ] {
        let (status, answer) = api.ask(method, path, body).await.unwrap();
        assert_eq!(status, 507, "{answer}");
        assert!(answer["error"].is_string(), "{answer}");
    }
    let told = api.done("GET", "/api/capacity", Value::Null).await;
    assert_eq!(told["free"], 0);
    let second = format!("/api/volumes/{second}");
    api.done("DELETE", &second, Value::Null).await;
    let larger = json!({ "bytes": 2 * BYTES });
    let larger = api.done("PATCH", &path, larger).await;
    assert_eq!(larger["bytes"], 2 * BYTES);
    program.stop();
}

#[tokio::test]
async fn a_failed_job_leaves_an_object_that_can_be_deleted() {
    let (_array, api) = in_memory().await;
    api.done("PUT", "/faults", json!({ "failJobs": true }))
        .await;
    let created = api.done("POST", "/api/volumes", volume("x")).await;
    assert_eq!(created["state"], "error");
    let path = format!("/api/volumes/{}", created["id"].as_str().unwrap());
    let attach = format!("{path}/hosts/test-node");
    let (status, _) = api
        .ask("PUT", &attach, json!({ "readonly": false }))
        .await
        .unwrap();
    assert_eq!(status, 409);
    api.done("DELETE", &path, Value::Null).await;
}

#[tokio::test]
async fn a_portal_of_an_array_without_data_path_is_not_found() {
    let (_array, api) = in_memory().await;
    let (status, _) = api
        .ask("PUT", "/faults/portals/0", json!({ "up": false }))
        .await
        .unwrap();
    assert_eq!(status, 404);
}

#[tokio::test]
async fn a_host_is_shown_without_its_password() {
    let (folder, directory) = directory();
    let program = Program::start(&directory, &[]).await;
    let api = program.log_in().await;
    let chap = json!({ "user": "node", "password": "twelve-bytes" });
    let host = json!({ "iqn": "iqn.2026-01.io.example:node", "chap": chap });
    let answers = [
        api.done("PUT", "/api/hosts/node-1", host).await,
        api.done("GET", "/api/hosts/node-1", Value::Null).await,
        api.done("GET", "/api/hosts", Value::Null).await,
    ];
    for answer in answers.map(|it| it.to_string()) {
        assert!(answer.contains(r#""chapUser":"node""#), "{answer}");
        assert!(!answer.contains("twelve-bytes"), "{answer}");
    }
    let state = directory.join("state.json").metadata().unwrap();
    assert_eq!(state.permissions().mode() & 0o777, 0o600);
    program.stop();
    let log = fs::read_to_string(program::log(&directory)).unwrap();
    assert!(!log.contains("twelve-bytes"), "{log}");
    drop(folder);
}

#[tokio::test]
async fn a_copy_holds_what_its_source_held_and_no_more_space() {
    let (_folder, directory) = directory();
    let program = Program::start(&directory, &[]).await;
    let api = program.log_in().await;
    let source = api.create("volumes", volume("source")).await;
    let written = OpenOptions::new()
        .write(true)
        .open(file(&directory, &source));
    written.unwrap().write_all_at(CONTENT, MIDDLE).unwrap();
    let new = json!({ "name": "taken", "volume": source });
    let taken = api.create("snapshots", new).await;
    let restored = json!({ "name": "restored", "bytes": 2 * BYTES, "snapshot": taken });
    let copied = json!({ "name": "copied", "bytes": BYTES, "volume": source });
    for (new, bytes) in [(restored, 2 * BYTES), (copied, BYTES)] {
        let id = api.create("volumes", new).await;
        let copy = fs::File::open(file(&directory, &id)).unwrap();
        let mut content = [0; CONTENT.len()];
        copy.read_exact_at(&mut content, MIDDLE).unwrap();
        assert_eq!(content, *CONTENT);
        let metadata = copy.metadata().unwrap();
        assert_eq!(metadata.len(), bytes);
        assert!(metadata.blocks() * BLOCK < BYTES, "{metadata:?}");
    }
    program.stop();
}

#[tokio::test]
async fn an_array_goes_on_where_a_killed_one_ended() {
    let (_folder, directory) = directory();
    let program = Program::start(&directory, &["--host", "node-1"]).await;
    let api = program.log_in().await;
    let id = api.create("volumes", volume("x")).await;
    let path = format!("/api/volumes/{id}");
    let attach = format!("{path}/hosts/node-1");
    api.done("PUT", &attach, json!({ "readonly": true })).await;
    let qos = json!({ "qos": { "iops": 100, "bytesPerSecond": 1 << 20 } });
    let before = api.done("PATCH", &path, qos.clone()).await;
    program.kill();
    // A killed array may have made it and no record.
    let stray = file(&directory, "vol-99999999");
    fs::write(&stray, "stray").unwrap();
    let program = Program::start(&directory, &[]).await;
    let (status, _) = api.ask("GET", &path, Value::Null).await.unwrap_or_default();
    assert_ne!(status, 200, "sessions end with the array");
    let api = program.log_in().await;
    let after = api.done("GET", &path, Value::Null).await;
    assert_eq!(after, before);
    assert_eq!(after["hosts"], json!(["node-1"]));
    assert_eq!(after["qos"], qos["qos"]);
    assert!(!stray.exists() && file(&directory, &id).exists());
    program.stop();
}

#[tokio::test]
async fn a_directory_has_one_array_at_a_time() {
    let (_folder, directory) = directory();
    let options = ArrayOptions {
        directory: Some(directory.clone()),
        ..ArrayOptions::default()
    };
    let first = Array::start(options.clone()).await.unwrap();
    let refused = Array::start(options.clone()).await.unwrap_err();
    assert!(refused.to_string().contains("another array"), "{refused}");
    first.stop().unwrap();
    // Its connections may end a little later.
    until("the directory is free", async || {
        Array::start(options.clone()).await.is_ok()
    })
    .await;
}
