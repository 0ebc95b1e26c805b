//! Calls that meet: while one is under way, those whose claims exclude it are ABORTED at once, the others are served, whether or not its client
//! still waits. The disk that a call writes to stands still (fsfreeze(8)), so it is under way for as long as a test wants; nothing here depends on
//! time.

use crate::conformance::driver::Driver;
use futures::future::{Either, select};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tonic::{Code, Status};
use wasmount_csi::wire::csi::v1::{
    ControllerGetVolumeRequest, ControllerModifyVolumeRequest, GetSnapshotRequest,
    ListVolumesRequest,
};
use wasmount_tests::array::ArrayOptions;
use wasmount_tests::copies::{cloned, copy, delete_snapshot, restored, snapshot};
use wasmount_tests::kinds::Kind;
use wasmount_tests::loop_disk::LoopDisk;
use wasmount_tests::orchestrator::{VOLUME_BYTES, Volume, code, patiently};
use wasmount_tests::requests;

/// A formatted volume: setting one up writes to the pool.
const KIND: Kind = Kind::Filesystem("ext4");

/// Of the disk under kubelet's directory, in bytes: it holds directories.
const KUBELET_BYTES: u64 = 64 << 20;

/// The time until a volume of an array is ready: longer than a busy machine takes for the calls beside it.
const JOB: Duration = Duration::from_secs(10);

/// An answer that is waited for.
type Answer<'a> = Pin<Box<dyn Future<Output = Code> + 'a>>;

fn answer<'a, T: 'a>(call: impl Future<Output = Result<T, Status>> + 'a) -> Answer<'a> {
    Box::pin(async { code(&call.await) })
}

/// Makes a call that cannot end now, and comes back once it is known to be under way: the same call again was ABORTED.
async fn under_way<'a>(call: impl Fn() -> Answer<'a>) -> Answer<'a> {
    match select(call(), call()).await {
        Either::Left((refused, other)) | Either::Right((refused, other)) => {
            assert_eq!(refused, Code::Aborted, "of two at once one is refused");
            other
        }
    }
}

/// Calls that change something about a volume, by name.
fn changes<'a>(driver: &'a Driver, volume: &'a Volume) -> Vec<(&'static str, Answer<'a>)> {
    let orchestrator = &driver.orchestrator;
    let (id, target) = (&volume.id, &volume.target);
    let modify = ControllerModifyVolumeRequest {
        volume_id: id.clone(),
        ..ControllerModifyVolumeRequest::default()
    };
    let mut controller = driver.clients().controller;
    vec![
        ("stage", answer(orchestrator.stage_as(KIND.stage(volume)))),
        (
            "publish",
            answer(orchestrator.publish_as(KIND.publish(volume, target))),
        ),
        ("unpublish", answer(orchestrator.unpublish(volume))),
        ("unstage", answer(orchestrator.unstage(volume))),
        ("delete", answer(orchestrator.delete(id))),
        (
            "expand",
            answer(orchestrator.expand(requests::expand(id, KIND.bytes()))),
        ),
        (
            "expand on the node",
            answer(orchestrator.node_expand(requests::node_expand(id, target, 1))),
        ),
        ("snapshot", answer(snapshot(orchestrator, id, "taken"))),
        (
            "clone",
            answer(orchestrator.create(copy(KIND, "clone", cloned(id)))),
        ),
        (
            "modify",
            answer(async move { controller.controller_modify_volume(modify).await }),
        ),
        (
            "attach",
            answer(crate::conformance::attach::attach(driver, id, false)),
        ),
        (
            "detach",
            answer(crate::conformance::attach::detach(driver, id, "")),
        ),
    ]
}

/// Calls that change nothing are served, whatever is under way.
async fn assert_read(driver: &Driver, volume: &Volume) {
    let mut controller = driver.clients().controller;
    driver.orchestrator.is_known(&volume.id).await.unwrap();
    driver.orchestrator.capacity().await.unwrap();
    let request = ControllerGetVolumeRequest {
        volume_id: volume.id.clone(),
    };
    controller.controller_get_volume(request).await.unwrap();
    let list = controller.list_volumes(ListVolumesRequest::default()).await;
    assert!(!list.unwrap().into_inner().entries.is_empty());
}

#[tokio::test]
async fn privileged_a_volume_that_is_being_staged_is_not_changed() {
    let driver = Driver::over("ext4").await;
    let orchestrator = &driver.orchestrator;
    let volume = KIND.created(orchestrator, "pvc").await.unwrap();
    let frozen = driver.disk.as_ref().unwrap().freeze().unwrap();
    let staged = under_way(|| answer(orchestrator.stage_as(KIND.stage(&volume)))).await;
    for (what, refused) in changes(&driver, &volume) {
        assert_eq!(refused.await, Code::Aborted, "{what}");
    }
    assert_read(&driver, &volume).await;
    drop(frozen);
    assert_eq!(staged.await, Code::Ok);
    orchestrator.tear_down(&volume).await.unwrap();
    driver.assert_nothing_left();
}

/// The client hangs up, and the call goes on.
#[tokio::test]
async fn privileged_a_stage_without_its_client_is_found_by_a_retry() {
    let driver = Driver::over("ext4").await;
    let orchestrator = &driver.orchestrator;
    let volume = KIND.created(orchestrator, "pvc").await.unwrap();
    let frozen = driver.disk.as_ref().unwrap().freeze().unwrap();
    let stage = || orchestrator.stage_as(KIND.stage(&volume));
    drop(under_way(|| answer(stage())).await);
    assert_eq!(answer(stage()).await, Code::Aborted);
    assert_eq!(answer(orchestrator.unstage(&volume)).await, Code::Aborted);
    drop(frozen);
    patiently(&[Code::Aborted], stage).await.unwrap();
    let staged = driver.host.mounts().unwrap();
    assert_eq!(staged, [volume.staging.as_path()]);
    orchestrator.tear_down(&volume).await.unwrap();
    driver.assert_nothing_left();
}

#[tokio::test]
async fn privileged_a_volume_that_is_being_deleted_is_not_changed() {
    let driver = Driver::over("ext4").await;
    let orchestrator = &driver.orchestrator;
    let volume = KIND.created(orchestrator, "pvc").await.unwrap();
    let frozen = driver.disk.as_ref().unwrap().freeze().unwrap();
    let deleted = under_way(|| answer(orchestrator.delete(&volume.id))).await;
    for (what, refused) in changes(&driver, &volume) {
        assert_eq!(refused.await, Code::Aborted, "{what}");
    }
    assert_read(&driver, &volume).await;
    drop(frozen);
    assert_eq!(deleted.await, Code::Ok);
    driver.assert_nothing_left();
}

#[tokio::test]
async fn privileged_a_name_that_is_being_made_is_not_made_twice() {
    let driver = Driver::over("ext4").await;
    let orchestrator = &driver.orchestrator;
    let frozen = driver.disk.as_ref().unwrap().freeze().unwrap();
    let created = under_way(|| answer(orchestrator.create(KIND.create("pvc")))).await;
    let mut larger = KIND.create("pvc");
    larger.capacity_range = Some(requests::at_least(2 * KIND.bytes()));
    assert_eq!(answer(orchestrator.create(larger)).await, Code::Aborted);
    drop(frozen);
    assert_eq!(created.await, Code::Ok);
    let volume = KIND.created(orchestrator, "pvc").await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    driver.assert_nothing_left();
}

/// The job of an array is what keeps a call under way.
#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_name_that_an_array_makes_is_not_made_twice() {
    let options = ArrayOptions {
        job: JOB,
        ..ArrayOptions::default()
    };
    let driver = Driver::of_array(options).await;
    let orchestrator = &driver.orchestrator;
    let created = under_way(|| answer(orchestrator.create(driver.create("pvc")))).await;
    let mut larger = driver.create("pvc");
    larger.capacity_range = Some(requests::at_least(2 * VOLUME_BYTES));
    assert_eq!(answer(orchestrator.create(larger)).await, Code::Aborted);
    orchestrator.capacity().await.unwrap();
    assert_eq!(created.await, Code::Ok);
    let volume = driver.created("pvc").await;
    orchestrator.tear_down(&volume).await.unwrap();
    driver.assert_nothing_left();
}

#[tokio::test]
async fn privileged_a_snapshot_that_is_being_deleted_is_no_source() {
    let driver = Driver::over("ext4").await;
    let orchestrator = &driver.orchestrator;
    let volume = KIND.created(orchestrator, "pvc").await.unwrap();
    let taken = snapshot(orchestrator, &volume.id, "taken").await.unwrap();
    let frozen = driver.disk.as_ref().unwrap().freeze().unwrap();
    let deleted = under_way(|| answer(delete_snapshot(orchestrator, &taken))).await;
    let restore = orchestrator.create(copy(KIND, "restored", restored(&taken)));
    assert_eq!(answer(restore).await, Code::Aborted);
    let request = GetSnapshotRequest {
        snapshot_id: taken.clone(),
        ..GetSnapshotRequest::default()
    };
    driver
        .clients()
        .controller
        .get_snapshot(request)
        .await
        .unwrap();
    // Its volume is another thing.
    assert_read(&driver, &volume).await;
    drop(frozen);
    assert_eq!(deleted.await, Code::Ok);
    orchestrator.tear_down(&volume).await.unwrap();
    driver.assert_nothing_left();
}

/// Kubelet publishes a volume to several pods at once, and asks for stats beside it.
#[tokio::test]
async fn privileged_a_volume_being_published_is_found_by_others() {
    let driver = Driver::serving().await;
    let orchestrator = &driver.orchestrator;
    let disk = LoopDisk::mount(&driver.host.kubelet(), KUBELET_BYTES).unwrap();
    let volume = KIND.created(orchestrator, "pvc").await.unwrap();
    KIND.set_up(orchestrator, &volume).await.unwrap();
    let second = orchestrator.target("pvc", "second-pod").unwrap();
    let third = orchestrator.target("pvc", "third-pod").unwrap();
    orchestrator
        .publish_as(KIND.publish(&volume, &third))
        .await
        .unwrap();
    let frozen = disk.freeze().unwrap();
    let to_second = || answer(orchestrator.publish_as(KIND.publish(&volume, &second)));
    let published = under_way(to_second).await;
    for (what, refused) in [
        (
            "unpublish",
            answer(orchestrator.unpublish_at(&volume.id, &second)),
        ),
        ("unstage", answer(orchestrator.unstage(&volume))),
        ("stage", answer(orchestrator.stage_as(KIND.stage(&volume)))),
        ("delete", answer(orchestrator.delete(&volume.id))),
        (
            "expand",
            answer(orchestrator.expand(requests::expand(&volume.id, KIND.bytes()))),
        ),
    ] {
        assert_eq!(refused.await, Code::Aborted, "{what}");
    }
    // To where it is published already, nothing has to be written.
    let again = orchestrator.publish_as(KIND.publish(&volume, &third));
    assert_eq!(answer(again).await, Code::Ok);
    orchestrator.stats(&volume.id, &third).await.unwrap();
    let taken = snapshot(orchestrator, &volume.id, "taken").await.unwrap();
    assert_read(&driver, &volume).await;
    drop(frozen);
    assert_eq!(published.await, Code::Ok);
    for target in [&second, &third] {
        orchestrator.unpublish_at(&volume.id, target).await.unwrap();
    }
    delete_snapshot(orchestrator, &taken).await.unwrap();
    orchestrator.tear_down(&volume).await.unwrap();
    drop(disk);
    driver.assert_nothing_left();
}
