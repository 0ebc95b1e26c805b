//! Lives of volumes in Cinder side by side: on a sound network, with tokens that end soon, and while requests are lost, doubled and overtaken.

use super::driver::{GIB, Scene};
use futures::future::join_all;
use std::time::{Duration, Instant};
use tonic::{Code, Status};
use wasmount_csi::wire::csi::v1::volume_content_source::Type;
use wasmount_csi::wire::csi::v1::{CreateVolumeRequest, ListVolumesRequest, VolumeContentSource};
use wasmount_tests::cinder::AccountOptions;
use wasmount_tests::copies::{cloned, delete_snapshot, restored, snapshot};
use wasmount_tests::orchestrator::{Orchestrator, patiently};
use wasmount_tests::requests;
use wasmount_tests::retrying_proxy::RETRIED;

/// Lives side by side: Cinder has one thread.
pub(super) const AT_ONCE: usize = 4;

/// One request of so many meets a fault.
pub(super) const ONE_OF: usize = 6;

/// A token's life: longer than any one request, and its login, takes on a busy machine.
pub(super) const SHORT: Duration = Duration::from_secs(20);

/// Logins that a host with short tokens is watched for: the first, and one in the midst of calls.
const LOGINS: usize = 2;

/// How many tokens of that lifetime may have ended since then. Keystone counts whole seconds.
pub(super) fn lifetimes(start: Instant) -> usize {
    usize::try_from(start.elapsed().as_secs() / (SHORT.as_secs() - 1)).unwrap()
}

async fn is_published(orchestrator: &Orchestrator, id: &str, node: &str) -> Result<bool, Status> {
    let request = ListVolumesRequest::default();
    let mut controller = orchestrator.clients().controller;
    let page = controller.list_volumes(request).await?.into_inner();
    Ok(page.entries.iter().any(|entry| {
        let volume = entry.volume.as_ref().unwrap();
        let status = entry.status.as_ref().unwrap();
        volume.volume_id == id && status.published_node_ids == [node]
    }))
}

/// Creates a copy, which is as large as its source was when it was made.
async fn copied(
    orchestrator: &Orchestrator,
    name: &str,
    from: Type,
    again: &[Code],
) -> Result<String, Status> {
    let request = CreateVolumeRequest {
        volume_content_source: Some(VolumeContentSource { r#type: Some(from) }),
        ..requests::create(name, 2 * GIB)
    };
    let create = || orchestrator.create(request.clone());
    let (id, bytes) = patiently(again, create).await?;
    assert_eq!(bytes, 2 * GIB, "{name}");
    Ok(id)
}

/// One life; a call is repeated for these codes.
async fn live(
    orchestrator: &Orchestrator,
    node: &str,
    name: &str,
    again: &[Code],
) -> Result<(), Status> {
    let create = || orchestrator.create(requests::create(name, GIB));
    let (id, bytes) = patiently(again, create).await?;
    assert_eq!(bytes, GIB, "{name}");
    patiently(again, || orchestrator.attach(&id, node)).await?;
    assert!(patiently(again, || is_published(orchestrator, &id, node)).await?);
    let grow = || orchestrator.expand(requests::expand(&id, 2 * GIB));
    assert_eq!(patiently(again, grow).await?, (2 * GIB, true), "{name}");
    let taken = format!("{name}-snapshot");
    let taken = patiently(again, || snapshot(orchestrator, &id, &taken)).await?;
    let clone = copied(orchestrator, &format!("{name}-clone"), cloned(&id), again).await?;
    let restored = restored(&taken);
    let restored = copied(orchestrator, &format!("{name}-restored"), restored, again).await?;
    patiently(again, || orchestrator.detach(&id, node)).await?;
    assert!(!patiently(again, || is_published(orchestrator, &id, node)).await?);
    patiently(again, || delete_snapshot(orchestrator, &taken)).await?;
    for id in [&clone, &restored, &id] {
        patiently(again, || orchestrator.delete(id)).await?;
    }
    Ok(())
}

/// Lives side by side, each of which ends.
pub(super) async fn live_at_once(scene: &Scene, again: &[Code]) {
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let names: Vec<_> = (0..AT_ONCE).map(|number| format!("pvc-{number}")).collect();
    let lives = names
        .iter()
        .map(|name| live(&orchestrator, &scene.node, name, again));
    for (name, lived) in names.iter().zip(join_all(lives).await) {
        assert!(lived.is_ok(), "{name}: {lived:?}\n{}", scene.proxy);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_lives_in_cinder_share_a_login_and_leave_nothing() {
    let scene = Scene::of(0, AccountOptions::default(), &[]).await;
    live_at_once(&scene, &[]).await;
    assert_eq!(scene.logins(), 1);
    // Each life has a volume, its clone and its restored snapshot.
    let created = ["/v3/volumes", "/v3/snapshots", "/v3/attachments"];
    let created = created.map(|path| scene.proxy.answered(&format!("POST {path}")));
    assert_eq!(created, [3 * AT_ONCE, AT_ONCE, AT_ONCE]);
    scene.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_lives_in_cinder_outlast_their_tokens() {
    let options = AccountOptions {
        token_lifetime: Some(SHORT),
        ..AccountOptions::default()
    };
    let scene = Scene::of(0, options, &[]).await;
    let start = Instant::now();
    while scene.logins() < LOGINS {
        live_at_once(&scene, &RETRIED).await;
    }
    let (logins, lifetimes) = (scene.logins(), lifetimes(start));
    assert!(logins <= 1 + lifetimes, "{logins} in {lifetimes} lifetimes");
    scene.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_lives_in_cinder_on_a_bad_network_lose_nothing() {
    let scene = Scene::of(ONE_OF, AccountOptions::default(), &[]).await;
    live_at_once(&scene, &RETRIED).await;
    assert!(scene.proxy.done().len() > 5, "{}", scene.proxy);
    assert_eq!(scene.logins(), 1, "{}", scene.proxy);
    scene.assert_nothing_left();
}
