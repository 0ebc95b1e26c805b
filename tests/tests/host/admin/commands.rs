//! Each command, as an administrator types it.

use crate::admin::scene::{DRIVER, Scene, said};
use tokio::process::Command;
use tonic::Code;
use wasmount_tests::orchestrator::{VOLUME_BYTES, code};
use wasmount_tests::program;
use wasmount_tests::requests;

/// Nobody's user.
const STRANGER: &str = "65534";

#[tokio::test]
async fn privileged_status_shows_what_serves_in_a_table_and_as_json() {
    let scene = Scene::start();
    let status = scene.status();
    assert_eq!(status["version"]["number"], 1);
    assert_eq!(status["volumesInUse"], 0);
    assert_eq!(status["backend"], DRIVER);
    let digest = status["version"]["digest"].as_str().unwrap();
    let table = scene.done(&["status"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("DRIVER"), "{table}");
    assert!(lines[1].starts_with(DRIVER), "{table}");
    assert!(lines[1].contains("serving"), "{table}");
    assert!(
        lines[1].contains(&digest["sha256:".len()..][..12]),
        "{table}"
    );
    // Nothing for a terminal where there is none.
    assert!(!table.contains('\x1b'), "{table}");
}

#[tokio::test]
async fn privileged_status_watch_prints_changes() {
    let scene = Scene::start();
    let output = tempfile::NamedTempFile::new().unwrap();
    let mut watching = Command::from(scene.command(&["status", "--watch"]))
        .stdout(output.reopen().unwrap())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let printed = || std::fs::read_to_string(output.path()).unwrap();
    scene.until("a table", |_| printed().contains("serving"));
    scene.done(&["pause", DRIVER]);
    scene.until("another table", |_| printed().contains("paused"));
    watching.kill().await.unwrap();
    assert_eq!(printed().matches("DRIVER").count(), 2, "{}", printed());
}

#[tokio::test]
async fn privileged_requests_of_administrators_are_audited() {
    let scene = Scene::start();
    scene.done(&["drain", DRIVER, "--reason", "new disks"]);
    scene.refused(&["rollback", DRIVER, "--to", "7"]);
    let log = scene.host.log();
    for (operation, arguments, end) in [
        (
            "drain",
            "arguments=\"reason=Some(\\\"new disks\\\") patience_seconds=60\"",
            "request of an administrator is done",
        ),
        (
            "rollback",
            "arguments=\"to=Some(7) from=None\"",
            "request of an administrator failed",
        ),
    ] {
        let of = format!("uid=0 operation=\"{operation}\" driver=\"{DRIVER}\"");
        let lines: Vec<_> = log.lines().filter(|line| line.contains(&of)).collect();
        let [begin, ended] = lines.as_slice() else {
            panic!("{operation}: {lines:#?}");
        };
        assert!(begin.contains(arguments), "{begin}");
        assert!(
            ended.contains(end) && ended.contains("duration_ms="),
            "{ended}"
        );
    }
}

#[tokio::test]
async fn privileged_the_log_level_changes_while_the_host_runs() {
    let scene = Scene::start();
    let reads = || scene.host.log().matches("call answered").count();
    assert_eq!(scene.done(&["log-level"]), "info\n");
    let orchestrator = scene.orchestrator().await;
    orchestrator.has_plugin().await.unwrap();
    assert_eq!(reads(), 0);
    scene.done(&["log-level", "info,wasmount_csi=debug"]);
    assert_eq!(
        scene.done(&["log-level", "--json"]),
        "{\n  \"level\": \"info,wasmount_csi=debug\"\n}\n"
    );
    orchestrator.has_plugin().await.unwrap();
    assert_eq!(reads(), 1);
    scene.done(&["log-level", "warn"]);
    orchestrator.has_plugin().await.unwrap();
    assert_eq!(reads(), 1);
    let said = scene.wasmount(&["log-level", "loud"]);
    assert_eq!(said.code, Some(64), "{said:?}");
    assert!(said.error.contains("`loud` is no level"), "{said:?}");
}

#[tokio::test]
async fn privileged_an_unknown_driver_is_answered_with_known_ones() {
    let scene = Scene::start();
    for command in [
        "swap", "rollback", "pause", "resume", "drain", "history", "volumes", "delete",
    ] {
        let error = scene.refused(&[command, "other.wasmount.io"]);
        assert_eq!(
            error,
            format!(
                "wasmount: no driver other.wasmount.io is served here; those that are: {DRIVER}\n"
            ),
            "{command}"
        );
        let said = scene.wasmount(&[command, "../x"]);
        assert_eq!(said.code, Some(64), "{command}: {said:?}");
    }
}

#[tokio::test]
async fn privileged_a_host_that_is_not_there_is_said_to_be_so() {
    let mut scene = Scene::start();
    scene.host.kill_9().unwrap();
    let error = scene.refused(&["status"]);
    assert!(error.contains("no host serves at"), "{error}");
    assert!(error.contains("--data-dir"), "{error}");
    scene.host.restart().unwrap();
    scene.serves(1);
    scene.host.terminate().unwrap();
    // A clean stop leaves no socket.
    assert!(!scene.host.data().join("admin.sock").exists());
}

#[tokio::test]
async fn privileged_another_user_is_rejected() {
    let scene = Scene::start();
    let host_program = xtask::workspace::Workspace::locate()
        .unwrap()
        .host_program();
    let copy = scene.host.root().join("wasmount");
    program::copy(&host_program, &copy).unwrap();
    let socket = scene.host.data().join("admin.sock");
    let open = |rights: &[&str]| {
        let ids = ["--reuid", STRANGER, "--regid", STRANGER, "--clear-groups"];
        let output = std::process::Command::new("setpriv")
            .args(ids)
            .args(rights)
            .arg(&copy)
            .args(["status", "--admin-socket"])
            .arg(&socket)
            .output()
            .unwrap();
        said(output)
    };
    // By the mode of the socket; and by the host, where a caller has rights past that.
    let past = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"];
    for rights in [&[][..], &past] {
        let said = open(rights);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.error.contains("only root"), "{said:?}");
    }
}

#[tokio::test]
async fn privileged_drain_takes_no_new_work_and_tears_down_as_ever() {
    let scene = Scene::start();
    let orchestrator = scene.orchestrator().await;
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    let said = scene.done(&["drain", DRIVER, "--reason", "new disks"]);
    assert_eq!(
        said,
        format!("{DRIVER} takes no new work; 1 volume stays in use here\n")
    );
    let request = requests::create("more", VOLUME_BYTES);
    let refused = orchestrator.create(request.clone()).await;
    assert_eq!(code(&refused), Code::Unavailable);
    let message = refused.unwrap_err().message().to_owned();
    assert!(message.contains("new disks"), "{message}");
    let status = scene.status();
    assert_eq!(status["phase"], "draining");
    assert!(status["reason"].as_str().unwrap().contains("new disks"));
    orchestrator.unpublish(&volume).await.unwrap();
    orchestrator.unstage(&volume).await.unwrap();
    assert_eq!(code(&orchestrator.stage(&volume).await), Code::Unavailable);
    scene.done(&["resume", DRIVER]);
    let (more, _) = orchestrator.create(request).await.unwrap();
    orchestrator.delete(&more).await.unwrap();
    orchestrator.delete(&volume.id).await.unwrap();
}

#[tokio::test]
async fn privileged_volumes_are_listed_with_their_places() {
    let scene = Scene::start();
    let orchestrator = scene.orchestrator().await;
    let said = scene.done(&["volumes", DRIVER]);
    assert_eq!(said, format!("no volume of {DRIVER} is in use here\n"));
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.set_up(&volume).await.unwrap();
    let said = scene.done(&["volumes", DRIVER, "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let expected = serde_json::json!([{
        "id": volume.id,
        "staged": volume.staging,
        "published": [volume.target],
    }]);
    assert_eq!(said["volumes"], expected);
    assert_eq!(scene.status()["volumesInUse"], 1);
    let table = scene.done(&["volumes", DRIVER]);
    assert!(table.contains(&*volume.target.to_string_lossy()), "{table}");
    orchestrator.tear_down(&volume).await.unwrap();
    assert_eq!(scene.status()["volumesInUse"], 0);
}

#[tokio::test]
async fn privileged_a_drain_lasts_across_a_restart_until_resume() {
    let mut scene = Scene::start();
    scene.done(&["drain", DRIVER, "--reason", "new disks"]);
    let since = scene.status()["drained"]["since"].clone();
    assert!(since.is_string());
    scene.host.kill_9().unwrap();
    scene.host.restart().unwrap();
    let status = scene.serves(1);
    assert_eq!(
        (&status["phase"], &status["drained"]["since"]),
        (&"draining".into(), &since)
    );
    let reason = status["reason"].as_str().unwrap();
    assert_eq!(
        reason,
        format!(
            "takes no new work since {}: new disks",
            since.as_str().unwrap()
        )
    );
    let orchestrator = scene.orchestrator().await;
    let request = requests::create("more", VOLUME_BYTES);
    let refused = orchestrator.create(request.clone()).await;
    assert_eq!(code(&refused), Code::Unavailable);
    scene.done(&["resume", DRIVER]);
    let (id, _) = orchestrator.create(request).await.unwrap();
    orchestrator.delete(&id).await.unwrap();
    scene.host.terminate().unwrap();
    scene.host.restart().unwrap();
    assert_eq!(scene.serves(1)["phase"], "serving");
}
