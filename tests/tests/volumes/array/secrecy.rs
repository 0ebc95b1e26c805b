//! A password, the tokens of its sessions and a private key are nowhere that a person or a program may look: not in logs and spans of any level,
//! metrics, answers of the admin socket, the history of versions, and the directories of the host.

use super::lives::live;
use super::{Scene, assert_absent, holds};
use futures::future::join_all;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use wasmount_tests::array::{ArrayOptions, PASSWORD};
use wasmount_tests::health::Health;
use xtask::workspace::Workspace;

/// Lives side by side.
const LIVES: usize = 8;

/// One request of so many meets a fault.
const ONE_OF: usize = 4;

/// All that the host and its HTTP client ever say.
const LEVELS: &str = "trace,hyper=trace,hyper_util=trace,reqwest=trace";

/// What must be in the log for a look at it to mean anything: the finest lines of the host, those of its HTTP client, and spans.
const FINEST: [&str; 3] = ["\"TRACE\"", "\"hyper_util::", "\"span\""];

/// What the admin socket answers.
const COMMANDS: [&[&str]; 2] = [
    &["status", "--json"],
    &["history", "array.wasmount.io", "--json"],
];

/// The output of a command about the host, which must succeed.
fn said(scene: &Scene, words: &[&str]) -> String {
    let mut command = Command::new(Workspace::locate().unwrap().host_program());
    command.args(words).arg("--data-dir").arg(scene.host.data());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn assert_unsaid(scene: &Scene, what: &str, text: &str) {
    for secret in scene.secrets() {
        let shown = String::from_utf8_lossy(&secret);
        assert!(!holds(text.as_bytes(), &secret), "{what} shows {shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_no_password_token_or_key_of_an_array_is_shown() {
    let health = Health::at_a_free_port().unwrap();
    let words = ["--log", LEVELS, "--log-format", "json"].map(Into::into);
    let mut scene = Scene::with(ONE_OF, ArrayOptions::default(), words.into()).await;
    scene.host.options().health = health.address();
    scene.host.restart().unwrap();
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let ended = AtomicUsize::new(0);
    let lives = (0..LIVES).map(async |number| {
        let lived = live(&orchestrator, &format!("pvc-{number}")).await;
        // Once: a request that is refused again after a new login has wrong credentials.
        if ended.fetch_add(1, Ordering::Relaxed) + 1 == LIVES / 2 {
            scene.array.expire_sessions();
        }
        lived
    });
    let mut lived = join_all(lives).await;
    scene.array.expire_sessions();
    lived.push(live(&orchestrator, "pvc-last").await);
    for lived in lived {
        assert!(lived.is_ok(), "{lived:?}\n{}", scene.proxy);
    }
    assert!(scene.array.counts().logins > 1, "{}", scene.proxy);
    let (status, metrics) = health.get("/metrics").unwrap();
    assert!(status == "200" && metrics.contains("logins"), "{metrics}");
    assert_unsaid(&scene, "/metrics", &metrics);
    for words in COMMANDS {
        assert_unsaid(&scene, &format!("{words:?}"), &said(&scene, words));
    }
    let log = scene.host.log();
    for words in FINEST {
        assert!(log.contains(words), "nothing of {words} was logged");
    }
    assert_unsaid(&scene, "the log", &log);
    // The directories while it runs, and all of it again at its end.
    for secret in scene.secrets() {
        assert_absent(&scene.host.data(), &secret);
        assert_absent(&scene.host.run(), &secret);
    }
    scene.end();
}

#[test]
#[should_panic(expected = "holds a secret")]
fn a_password_in_a_directory_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("below");
    std::fs::create_dir(&below).unwrap();
    std::fs::write(below.join("file"), format!("a{PASSWORD}b")).unwrap();
    assert_absent(folder.path(), PASSWORD.as_bytes());
}
