//! Calls at the same time: on one volume they are done once or answered ABORTED, on different volumes they do not wait for each other, and a
//! broken neighbour does not change the outcome.

use futures::future::join_all;
use std::collections::BTreeSet;
use std::fs;
use std::future::Future;
use std::time::Duration;
use tokio::time::sleep;
use tonic::{Code, Status};
use wasmount_tests::documents;
use wasmount_tests::host::{Host, HostOptions};
use wasmount_tests::leaks::{directory_pool, left_behind};
use wasmount_tests::orchestrator::{Orchestrator, VOLUME_BYTES, code, patiently};
use wasmount_tests::requests;
use wasmount_tests::root::needs_root;

/// Calls at the same time on one volume, and lives side by side.
const AT_ONCE: usize = 8;

/// Times that each of these is tried: a race shows itself seldom.
const ROUNDS: usize = 10;

/// What an external provisioner sends by default.
const CREATES_AT_ONCE: usize = 100;

/// The answer to calls before the host has loaded a plugin, and the time between two calls.
const NOT_LOADED_YET: &str = "it was not loaded yet";
const AGAIN: Duration = Duration::from_millis(10);

async fn serving() -> (Host, Orchestrator) {
    needs_root();
    let host = Host::start(HostOptions::default()).unwrap();
    let orchestrator = host.orchestrator().await.unwrap();
    (host, orchestrator)
}

fn assert_nothing_left(host: &Host) {
    let left = left_behind(host, &directory_pool(host)).unwrap();
    assert!(left.is_empty(), "{left:#?}");
}

/// Makes one call many times at once: each is answered OK or ABORTED, and one at least OK.
async fn all_at_once<T, F: Future<Output = Result<T, Status>>>(
    what: &str,
    call: impl Fn() -> F,
) -> Vec<T> {
    let answers = join_all((0..AT_ONCE).map(|_| call())).await;
    let codes: Vec<_> = answers.iter().map(code).collect();
    let allowed = |code: &Code| matches!(code, Code::Ok | Code::Aborted);
    assert!(codes.iter().all(allowed), "{what}: {codes:?}");
    assert!(codes.contains(&Code::Ok), "{what}: {codes:?}");
    answers.into_iter().flatten().collect()
}

#[tokio::test]
async fn privileged_the_same_call_eight_times_at_once_is_done_once() {
    let (host, orchestrator) = serving().await;
    for round in 0..ROUNDS {
        let name = format!("pvc-{round}");
        let request = requests::create(&name, VOLUME_BYTES);
        let created = all_at_once("create", || orchestrator.create(request.clone())).await;
        let ids: BTreeSet<_> = created.into_iter().collect();
        assert_eq!(ids.len(), 1, "{ids:?}");
        let volume = orchestrator.created(&name).await.unwrap();
        all_at_once("stage", || orchestrator.stage(&volume)).await;
        assert_eq!(host.mounts().unwrap(), [volume.staging.as_path()]);
        all_at_once("publish", || orchestrator.publish(&volume)).await;
        let mounts = [volume.staging.as_path(), volume.target.as_path()];
        assert_eq!(host.mounts().unwrap(), mounts);
        volume.write("whole").unwrap();
        all_at_once("unpublish", || orchestrator.unpublish(&volume)).await;
        assert!(!volume.target.exists());
        all_at_once("unstage", || orchestrator.unstage(&volume)).await;
        assert!(host.mounts().unwrap().is_empty());
        all_at_once("delete", || orchestrator.delete(&volume.id)).await;
        assert_nothing_left(&host);
    }
}

#[tokio::test]
async fn privileged_stage_and_unstage_at_once_end_in_one_of_the_two() {
    let (host, orchestrator) = serving().await;
    let volume = orchestrator.created("pvc").await.unwrap();
    for _ in 0..ROUNDS {
        let both = (0..AT_ONCE).map(|number| {
            let (orchestrator, volume) = (&orchestrator, &volume);
            async move {
                match number % 2 {
                    0 => orchestrator.stage(volume).await,
                    _ => orchestrator.unstage(volume).await,
                }
            }
        });
        let codes: Vec<_> = join_all(both).await.iter().map(code).collect();
        let allowed = |code: &Code| matches!(code, Code::Ok | Code::Aborted);
        assert!(codes.iter().all(allowed), "{codes:?}");
        let mounts = host.mounts().unwrap();
        assert!(mounts.is_empty() || mounts == [volume.staging.as_path()]);
        orchestrator.set_up(&volume).await.unwrap();
        volume.write("whole").unwrap();
        orchestrator.unpublish(&volume).await.unwrap();
        orchestrator.unstage(&volume).await.unwrap();
    }
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_pods_of_one_volume_do_not_wait_for_each_other() {
    let (host, orchestrator) = serving().await;
    let volume = orchestrator.created("pvc").await.unwrap();
    orchestrator.stage(&volume).await.unwrap();
    let targets: Vec<_> = (0..AT_ONCE)
        .map(|pod| orchestrator.target("pvc", &format!("pod-{pod}")).unwrap())
        .collect();
    for _ in 0..ROUNDS {
        let publish = targets.iter().map(|target| {
            orchestrator.publish_as(requests::publish(&volume.id, &volume.staging, target))
        });
        for answer in join_all(publish).await {
            answer.unwrap();
        }
        assert_eq!(host.mounts().unwrap().len(), 1 + AT_ONCE);
        let unpublish = targets
            .iter()
            .map(|target| orchestrator.unpublish_at(&volume.id, target));
        for answer in join_all(unpublish).await {
            answer.unwrap();
        }
        assert_eq!(host.mounts().unwrap(), [volume.staging.as_path()]);
    }
    orchestrator.tear_down(&volume).await.unwrap();
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_lives_of_different_volumes_do_not_meet() {
    let (host, orchestrator) = serving().await;
    let live = async |number: usize| {
        for round in 0..ROUNDS {
            let name = format!("pvc-{number}-{round}");
            let volume = orchestrator.created(&name).await.unwrap();
            orchestrator.stage(&volume).await.unwrap();
            orchestrator.publish(&volume).await.unwrap();
            volume.write(&name).unwrap();
            assert_eq!(volume.read_at(&volume.staging).unwrap(), name);
            orchestrator.unpublish(&volume).await.unwrap();
            orchestrator.unstage(&volume).await.unwrap();
            orchestrator.delete(&volume.id).await.unwrap();
        }
    };
    join_all((0..AT_ONCE).map(live)).await;
    assert_nothing_left(&host);
}

#[tokio::test]
async fn privileged_a_hundred_creates_at_once_are_all_served() {
    let (host, orchestrator) = serving().await;
    // On a busy machine a call may wait for its turn so long that it is asked again, as sidecars do.
    let create = async |number: usize| {
        let request = || requests::create(&format!("pvc-{number}"), VOLUME_BYTES);
        patiently(&[Code::Unavailable], || orchestrator.create(request())).await
    };
    let created = join_all((0..CREATES_AT_ONCE).map(create)).await;
    let ids: BTreeSet<_> = created.into_iter().map(|it| it.unwrap().0).collect();
    assert_eq!(ids.len(), CREATES_AT_ONCE);
    let delete =
        async |id: &String| patiently(&[Code::Unavailable], || orchestrator.delete(id)).await;
    let deleted = join_all(ids.iter().map(delete)).await;
    assert!(deleted.iter().all(Result::is_ok), "{deleted:?}");
    assert_nothing_left(&host);
}

// Two threads, so that the clients close their connections while the test waits for the host's end.
#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_broken_plugin_stops_no_teardown_or_neighbour() {
    needs_root();
    let garbage = Some("no component");
    let missing = None;
    for (spoilt, reason) in [
        (garbage, "the plugin is not WebAssembly"),
        (missing, "broken.wasm cannot be read: No such file"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let document = |driver| documents::directory_of_its_own(folder.path(), driver).unwrap();
        let (broken, plugin) = document("broken");
        let (good, _) = document("good");
        let mut host = Host::start(HostOptions {
            backends: vec![broken, good],
            ..HostOptions::default()
        })
        .unwrap();
        let kubelet = host.kubelet();
        let [broken, good] = [0, 1].map(|index| host.sockets()[index].clone());
        let orchestrator = Orchestrator::connect(&broken, &kubelet).await.unwrap();
        assert_eq!(orchestrator.driver_name().await.unwrap(), "broken");
        let volume = orchestrator.created("pvc").await.unwrap();
        orchestrator.set_up(&volume).await.unwrap();
        volume.write("kept").unwrap();
        host.terminate().unwrap();
        // The last versions are kept, and would serve.
        fs::remove_dir_all(host.data().join("versions/broken")).unwrap();
        match spoilt {
            Some(content) => fs::write(&plugin, content).unwrap(),
            None => fs::remove_file(&plugin).unwrap(),
        }
        host.restart().unwrap();

        let neighbour = Orchestrator::connect(&good, &kubelet).await.unwrap();
        let other = neighbour.created("other").await.unwrap();
        neighbour.set_up(&other).await.unwrap();
        let orchestrator = Orchestrator::connect_at_once(&broken, &kubelet)
            .await
            .unwrap();
        assert_eq!(orchestrator.driver_name().await.unwrap(), "broken");
        let refused = loop {
            let request = requests::create("more", VOLUME_BYTES);
            let refused = orchestrator.create(request).await.unwrap_err();
            // Until the host has looked at it.
            if !refused.message().contains(NOT_LOADED_YET) {
                break refused;
            }
            sleep(AGAIN).await;
        };
        assert_eq!(refused.code(), Code::Unavailable);
        assert!(refused.message().contains(reason), "{}", refused.message());
        assert_eq!(volume.read_at(&volume.target).unwrap(), "kept");
        orchestrator
            .stats(&volume.id, &volume.target)
            .await
            .unwrap();
        orchestrator.unpublish(&volume).await.unwrap();
        orchestrator.unstage(&volume).await.unwrap();
        assert_eq!(
            code(&orchestrator.delete(&volume.id).await),
            Code::Unavailable
        );

        // Mended, it serves without a restart.
        documents::copy_component(&plugin).unwrap();
        patiently(&[Code::Unavailable], || orchestrator.delete(&volume.id))
            .await
            .unwrap();
        neighbour.tear_down(&other).await.unwrap();
        for driver in ["broken", "good"] {
            let left = left_behind(&host, &host.data().join("pools").join(driver)).unwrap();
            assert!(left.is_empty(), "{left:#?}");
        }
    }
}
