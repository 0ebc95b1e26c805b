//! Lives of volumes side by side, each call repeated as Kubernetes does, while requests are lost, doubled and overtaken.

use super::{LOGIN, Scene};
use futures::future::join_all;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tonic::Status;
use wasmount_tests::array::ArrayOptions;
use wasmount_tests::documents::ARRAY_CONNECTIONS;
use wasmount_tests::leaks;
use wasmount_tests::orchestrator::{Orchestrator, VOLUME_BYTES, patiently};
use wasmount_tests::requests;
use wasmount_tests::retrying_proxy::RETRIED;
use wasmount_tests::rounds::rounds;

/// Lives side by side, and how many each of them is in a row.
const AT_ONCE: usize = 8;
const ROUNDS: usize = 5;

/// Lives of the long run, and how many of them are side by side: more than the connections of the grant.
const MANY: usize = 1_000;
const MANY_AT_ONCE: usize = 2 * ARRAY_CONNECTIONS;

/// One request of so many meets a fault.
const ONE_OF: usize = 4;

/// The time until a volume of the array is ready.
const JOB: Duration = Duration::from_millis(150);

/// Connections for each place of the grant, at most: while one is made, another may become free and take its request, and both stay.
const CONNECTIONS_FOR_EACH: usize = 2;

/// The node of the host.
const NODE: &str = "test-node";

/// One life; each call until it succeeds, and no answer but those that are retried.
pub(super) async fn live(orchestrator: &Orchestrator, name: &str) -> Result<(), Status> {
    let create = || orchestrator.create(requests::create(name, VOLUME_BYTES));
    let (id, _) = patiently(&RETRIED, create).await?;
    let volume = orchestrator.place(name, id).unwrap();
    let grown = || orchestrator.expand(requests::expand(&volume.id, 2 * VOLUME_BYTES));
    assert_eq!(patiently(&RETRIED, grown).await?, (2 * VOLUME_BYTES, false));
    let publish_context = patiently(&RETRIED, || orchestrator.attach(&volume.id, NODE)).await?;
    assert_eq!(publish_context["bytes"], (2 * VOLUME_BYTES).to_string());
    let mut stage = requests::stage(&volume.id, &volume.staging);
    stage.publish_context = publish_context.clone();
    orchestrator.stage_as(stage).await?;
    let mut publish = requests::publish(&volume.id, &volume.staging, &volume.target);
    publish.publish_context = publish_context;
    orchestrator.publish_as(publish).await?;
    volume.write(name).unwrap();
    assert_eq!(volume.read_at(&volume.staging).unwrap(), name);
    orchestrator.unpublish(&volume).await?;
    orchestrator.unstage(&volume).await?;
    patiently(&RETRIED, || orchestrator.detach(&volume.id, NODE)).await?;
    patiently(&RETRIED, || orchestrator.delete(&volume.id)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_lives_on_a_bad_network_lose_and_double_nothing() {
    let options = ArrayOptions {
        job: JOB,
        ..ArrayOptions::default()
    };
    let scene = Scene::of(ONE_OF, options).await;
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let row = async |number: usize| {
        for round in 0..ROUNDS {
            let name = format!("pvc-{number}-{round}");
            let lived = live(&orchestrator, &name).await;
            assert!(lived.is_ok(), "{name}: {lived:?}\n{}", scene.proxy);
            if number == 0 {
                scene.array.expire_sessions();
            }
        }
    };
    join_all((0..AT_ONCE).map(row)).await;
    let counts = scene.array.counts();
    let lives = AT_ONCE * ROUNDS;
    assert_eq!(counts.created, lives, "{}", scene.proxy);
    assert!(counts.volumes.is_empty(), "{counts:?}\n{}", scene.proxy);
    assert!(counts.attachments.is_empty(), "{counts:?}");
    assert!(scene.proxy.done().len() > 5, "{}", scene.proxy);
    // One at first, one for each end of all sessions, and those whose answer did not arrive.
    let expected = 1 + ROUNDS + scene.proxy.unheard(LOGIN);
    assert!(
        counts.logins <= expected,
        "{} logins, {expected} expected; {}",
        counts.logins,
        scene.proxy
    );
    scene.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_lives_on_a_sound_network_share_one_login() {
    let scene = Scene::of(0, ArrayOptions::default()).await;
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let names: Vec<_> = (0..AT_ONCE).map(|number| format!("pvc-{number}")).collect();
    let lives = names.iter().map(|name| live(&orchestrator, name));
    for lived in join_all(lives).await {
        lived.unwrap();
    }
    let counts = scene.array.counts();
    assert_eq!((counts.logins, counts.created), (1, AT_ONCE), "{counts:?}");
    assert!(counts.volumes.is_empty(), "{counts:?}");
    scene.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_many_lives_share_a_login_and_few_connections() {
    let scene = Scene::of(0, ArrayOptions::default()).await;
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let (lives, begun) = (rounds(MANY), AtomicUsize::new(0));
    let start = Instant::now();
    let row = async || {
        loop {
            let number = begun.fetch_add(1, Ordering::Relaxed);
            if number >= lives {
                return;
            }
            live(&orchestrator, &format!("pvc-{number}")).await.unwrap();
        }
    };
    join_all((0..MANY_AT_ONCE).map(|_| row())).await;
    let took = start.elapsed();
    let (counts, connections) = (scene.array.counts(), scene.proxy.connections());
    eprintln!("{lives} lives in {took:?}: {connections:?}, {counts:?}");
    assert_eq!((counts.logins, counts.created), (1, lives), "{counts:?}");
    assert!(
        connections.accepted <= CONNECTIONS_FOR_EACH * ARRAY_CONNECTIONS,
        "{connections:?}"
    );
    let left = (counts.volumes, counts.snapshots, counts.attachments);
    assert_eq!(left, (vec![], vec![], vec![]));
    let left = leaks::left_without_pool(&scene.host).unwrap();
    assert_eq!(left, Vec::<String>::new());
    // It also logs out.
    scene.end();
}
