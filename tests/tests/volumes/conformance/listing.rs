//! A long list, read in pages while volumes come and go: what is there all the time is listed once, and a token is good for what it was given for.

use crate::conformance::driver::Driver;
use futures::future::join;
use futures::stream::{self, StreamExt};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use tonic::{Code, Status};
use wasmount_csi::wire::csi::v1::{ListSnapshotsRequest, ListVolumesRequest, ListVolumesResponse};
use wasmount_tests::array::ArrayOptions;
use wasmount_tests::copies::snapshot;
use wasmount_tests::kinds::Kind;
use wasmount_tests::orchestrator::{Orchestrator, code, patiently};
use wasmount_tests::rounds::rounds;

/// Volumes that exist all the time, in a thorough run.
const VOLUMES: usize = 5_000;

/// Entries of a page: no divisor of the number of volumes.
const PAGE: i32 = 77;

/// Calls at once while they are made.
const AT_ONCE: usize = 64;

/// Volumes of one who makes and deletes.
const COMING: usize = 16;

const KIND: Kind = Kind::Directory;

async fn page(
    orchestrator: &Orchestrator,
    max_entries: i32,
    starting_token: &str,
) -> Result<ListVolumesResponse, Status> {
    let request = ListVolumesRequest {
        max_entries,
        starting_token: starting_token.to_owned(),
    };
    let mut controller = orchestrator.clients().controller;
    Ok(controller.list_volumes(request).await?.into_inner())
}

/// Every id, with how often it was listed; all pages but the last are full.
async fn listed(orchestrator: &Orchestrator, max_entries: i32) -> BTreeMap<String, usize> {
    let mut told = BTreeMap::new();
    let mut token = String::new();
    loop {
        let ListVolumesResponse {
            entries,
            next_token,
        } = page(orchestrator, max_entries, &token).await.unwrap();
        let most = usize::try_from(max_entries).unwrap();
        assert!(most == 0 || entries.len() <= most);
        for entry in entries {
            *told.entry(entry.volume.unwrap().volume_id).or_default() += 1;
        }
        token = next_token;
        if token.is_empty() {
            return told;
        }
    }
}

/// Creates and deletes volumes until it is stopped; returns how many.
async fn come_and_go(driver: &Driver, is_over: &AtomicBool) -> usize {
    let (orchestrator, mut made) = (&driver.orchestrator, 0);
    while !is_over.load(Ordering::Relaxed) {
        let mut ids = Vec::new();
        for number in 0..COMING {
            let request = driver.create(&format!("coming-{}", made + number));
            ids.push(orchestrator.create(request).await.unwrap().0);
        }
        made += ids.len();
        for id in ids {
            orchestrator.delete(&id).await.unwrap();
        }
    }
    made
}

#[tokio::test]
async fn privileged_a_long_list_names_each_volume_once() {
    list_beside_others(Driver::serving().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_long_list_of_an_array_names_each_volume_once() {
    list_beside_others(Driver::of_array(ArrayOptions::default()).await).await;
}

async fn list_beside_others(mut driver: Driver) {
    let orchestrator = driver.orchestrator.clone();
    let names: Vec<_> = (0..rounds(VOLUMES))
        .map(|number| format!("pvc-{number}"))
        .collect();
    // A disk that stalls makes a backend busy, which a provisioner sits out.
    let created = stream::iter(&names).map(|name| {
        patiently(&[Code::Unavailable], || {
            orchestrator.create(driver.create(name))
        })
    });
    let created: Vec<_> = created.buffer_unordered(AT_ONCE).collect().await;
    let staying: Vec<_> = created.into_iter().map(|it| it.unwrap().0).collect();

    let is_over = AtomicBool::new(false);
    let listing = async {
        let told = listed(&orchestrator, PAGE).await;
        // In one answer, as the specification has it without `max_entries`.
        let at_once = listed(&orchestrator, 0).await;
        is_over.store(true, Ordering::Relaxed);
        (told, at_once)
    };
    let ((told, at_once), come) = join(listing, come_and_go(&driver, &is_over)).await;
    assert!(come > 0);
    for told in [&told, &at_once] {
        let wrong: Vec<_> = staying
            .iter()
            .filter(|id| told.get(*id) != Some(&1))
            .collect();
        assert!(
            wrong.is_empty(),
            "{} are not listed once: {:?}",
            wrong.len(),
            wrong.first()
        );
        assert!(told.values().all(|times| *times == 1));
    }
    assert_eq!(listed(&orchestrator, PAGE).await.len(), staying.len());

    // A client goes on where it was, also with the host's next life.
    let first = page(&orchestrator, PAGE, "").await.unwrap();
    let second = page(&orchestrator, PAGE, &first.next_token).await.unwrap();
    driver.kill_and_restart().await;
    let again = page(&driver.orchestrator, PAGE, &first.next_token)
        .await
        .unwrap();
    // Conditions are asked for anew: a loaded machine has no time for all.
    let ids = |page: ListVolumesResponse| {
        let volumes = page.entries.into_iter().map(|it| it.volume.unwrap());
        let ids: Vec<_> = volumes.map(|it| it.volume_id).collect();
        (ids, page.next_token)
    };
    assert_eq!(ids(again), ids(second));
}

#[tokio::test]
async fn privileged_a_token_of_another_list_is_rejected() {
    let driver = Driver::serving().await;
    let orchestrator = &driver.orchestrator;
    let (mut volumes, mut snapshots) = (Vec::new(), Vec::new());
    for number in 0..3 {
        let name = format!("pvc-{number}");
        let volume = KIND.created(orchestrator, &name).await.unwrap();
        snapshots.push(snapshot(orchestrator, &volume.id, &name).await.unwrap());
        volumes.push(volume);
    }
    let of_volumes = page(orchestrator, 1, "").await.unwrap().next_token;
    let list = |source: &str, starting_token: &str| {
        let request = ListSnapshotsRequest {
            max_entries: 1,
            starting_token: starting_token.to_owned(),
            source_volume_id: source.to_owned(),
            ..ListSnapshotsRequest::default()
        };
        let mut controller = orchestrator.clients().controller;
        async move {
            controller
                .list_snapshots(request)
                .await
                .map(tonic::Response::into_inner)
        }
    };
    let of_snapshots = list("", "").await.unwrap().next_token;
    assert!(!of_volumes.is_empty() && !of_snapshots.is_empty());
    page(orchestrator, 1, &of_volumes).await.unwrap();
    list("", &of_snapshots).await.unwrap();
    let mut bent = of_volumes.clone();
    bent.pop();
    for token in [
        &of_snapshots,
        "garbage",
        "../..",
        "0",
        &volumes[0].id,
        &bent,
        &format!("{of_volumes}A"),
    ] {
        let refused = page(orchestrator, 1, token).await;
        assert_eq!(code(&refused), Code::Aborted, "{token:?}");
    }
    for (source, token) in [
        ("", of_volumes.as_str()),
        (&volumes[0].id, &of_snapshots),
        ("", "garbage"),
    ] {
        let refused = list(source, token).await;
        assert_eq!(code(&refused), Code::Aborted, "{source:?} {token:?}");
    }
    assert_eq!(
        code(&page(orchestrator, -1, "").await),
        Code::InvalidArgument
    );
    for (volume, taken) in volumes.iter().zip(&snapshots) {
        orchestrator.tear_down(volume).await.unwrap();
        wasmount_tests::copies::delete_snapshot(orchestrator, taken)
            .await
            .unwrap();
    }
    driver.assert_nothing_left();
}
