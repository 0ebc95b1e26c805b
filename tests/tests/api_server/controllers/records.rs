//! Records with a real API server: the rules of every store, several processes on the same keys, many records, and an API server that is away.

use crate::controllers::plane::Plane;
use futures::StreamExt;
use futures::future::join_all;
use futures::stream;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use wasmount_core::code::Code;
use wasmount_core::state::{Expect, Outcome, StateStore};
use wasmount_kubernetes::KubernetesStore;
use wasmount_store_conformance::{conforms, space};
use wasmount_tests::rounds::rounds;
use xtask::cluster;

/// Keys that two processes race for.
const CONTESTED: usize = 50;

/// More than one page of a listing, and than a scan answers at once.
const MANY: usize = 10_000;

/// Writes under way at a time.
const AT_ONCE: usize = 16;

/// Until a watch must have told. Generous: other tests share the machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);

fn key(number: usize) -> String {
    format!("{number:06}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_kubernetes_store_conforms_with_a_real_api_server() {
    let plane = Plane::shared().await;
    conforms(plane.store().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_processes_one_wins_each_key_of_a_real_api_server() {
    let plane = Plane::shared().await;
    let stores = [plane.store().await, plane.store().await];
    let space = space("races");
    let put = |store: usize, number: usize, expect| {
        let value = store.to_string().into_bytes();
        let (store, space) = (&stores[store], &space);
        async move { store.put(space, &key(number), value, expect).await.unwrap() }
    };
    let race = |number| async move {
        let expect = Expect::Absent;
        let outcomes = tokio::join!(put(0, number, expect), put(1, number, expect));
        let (winner, revision, loser) = match outcomes {
            (Outcome::Done(revision), Outcome::Conflict(seen)) => (0, revision, seen),
            (Outcome::Conflict(seen), Outcome::Done(revision)) => (1, revision, seen),
            both => panic!("{both:?}"),
        };
        // The loser gets what the winner wrote.
        let loser = loser.unwrap();
        assert_eq!(loser.value, winner.to_string().into_bytes());
        assert_eq!(loser.revision, revision);
        // And so it goes on from a revision that both have seen.
        let expect = Expect::Revision(revision);
        let outcomes = tokio::join!(put(0, number, expect), put(1, number, expect));
        let done = |outcome: &Outcome| matches!(outcome, Outcome::Done(_));
        assert!(done(&outcomes.0) != done(&outcomes.1), "{outcomes:?}");
    };
    join_all((0..CONTESTED).map(race)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn records_of_a_real_api_server_are_scanned_in_order() {
    let plane = Plane::shared().await;
    let (writer, reader) = (plane.store().await, plane.store().await);
    let space = space("many");
    stream::iter(0..rounds(MANY))
        .for_each_concurrent(AT_ONCE, |number| {
            let (writer, space) = (&writer, &space);
            async move {
                let key = key(number);
                let put = writer.put(space, &key, key.clone().into(), Expect::Absent);
                assert!(matches!(put.await.unwrap(), Outcome::Done(_)));
            }
        })
        .await;
    for store in [&writer, &reader] {
        let mut seen = 0;
        let mut after = None;
        loop {
            let page = store.scan(&space, "", after.as_deref(), u32::MAX);
            let page = page.await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            for entry in page {
                assert_eq!(entry.key, key(seen));
                seen += 1;
            }
        }
        assert_eq!(seen, rounds(MANY));
    }
    // What the one writes and removes, the other sees with the watch.
    let expected = writer.size(&space).await.unwrap();
    assert_eq!(reader.size(&space).await.unwrap(), expected);
    writer.remove(&space, &key(7), Expect::Any).await.unwrap();
    let told = timeout(PATIENCE, async {
        while !reader
            .scan(&space, &key(7), None, 1)
            .await
            .unwrap()
            .is_empty()
        {
            sleep(LOOK).await;
        }
    });
    told.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_real_api_server_calls_are_unavailable() {
    let plane = Plane::own().await;
    let (store, other) = (plane.store().await, plane.store().await);
    let space = space("outage");
    let put = async |store: &dyn StateStore, key: &str, expect| {
        store.put(&space, key, b"v".to_vec(), expect).await
    };
    let Outcome::Done(revision) = put(&*store, "before", Expect::Any).await.unwrap() else {
        panic!("conflict");
    };
    store.scan(&space, "", None, 1).await.unwrap();
    for stop in [true, false] {
        if stop {
            plane.stop_api();
        } else {
            plane.stop_etcd();
        }
        let refused = put(&*store, "before", Expect::Revision(revision)).await;
        assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
        let refused = store.get(&space, "before").await;
        assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
        let refused = store.remove(&space, "before", Expect::Any).await;
        assert_eq!(refused.unwrap_err().code(), Code::Unavailable);
        if stop {
            plane.start_api().await.unwrap();
        } else {
            plane.start_etcd().unwrap();
            plane.ready().await.unwrap();
        }
        assert!(store.get(&space, "before").await.unwrap().is_some());
    }
    // The watch goes on too.
    put(&*other, "after", Expect::Absent).await.unwrap();
    let told = timeout(PATIENCE, async {
        while store
            .scan(&space, "after", None, 1)
            .await
            .unwrap()
            .is_empty()
        {
            sleep(LOOK).await;
        }
    });
    told.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_watch_of_a_real_api_server_loses_no_record() {
    let plane = Plane::shared().await;
    let folder = tempfile::tempdir().unwrap();
    let (way, kubeconfig) = plane.way(folder.path(), "late").await;
    let client = cluster::client(&kubeconfig).await.unwrap();
    let late = KubernetesStore::new(client, &plane.namespace);
    let space = space("late");
    assert_eq!(late.scan(&space, "", None, 1).await.unwrap(), []);
    way.cut();
    let other = plane.store().await;
    let put = other.put(&space, "k", b"v".to_vec(), Expect::Absent);
    assert!(matches!(put.await.unwrap(), Outcome::Done(_)));
    // As for one that takes over: the next scan waits for an answer, which comes when the way is open again.
    late.forget();
    let scan = tokio::spawn(async move { late.scan(&space, "", None, 1).await });
    way.mend();
    assert_eq!(scan.await.unwrap().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_without_the_kind_is_an_error() {
    let plane = Plane::shared().await;
    let client = plane.client().await.unwrap();
    let nowhere = wasmount_kubernetes::KubernetesStore::new(client, "no-such-namespace");
    let space = space("nowhere");
    let put = nowhere.put(&space, "k", vec![], Expect::Absent).await;
    let refused = put.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    let source = std::error::Error::source(&refused).unwrap().to_string();
    assert!(
        source.contains("apply backendrecords.wasmount.io"),
        "{source}"
    );
}
