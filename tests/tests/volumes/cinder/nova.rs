//! plugins/cinder where nodes are instances of a real Nova, which attaches: lives on a sound and on a bad network, and instances that are not there.

use super::driver::{GIB, Scene};
use super::lives::{AT_ONCE, ONE_OF, live_at_once};
use tonic::{Code, Status};
use wasmount_tests::cinder::Cinder;
use wasmount_tests::orchestrator::{code, patiently};
use wasmount_tests::requests;
use wasmount_tests::retrying_proxy::RETRIED;

/// An instance that was never there.
const UNKNOWN: &str = "d8e02d56-2648-49a3-bf97-6be8f1204f38";

/// Attachments until one meets a fault. 100: of the two requests of each, one of six does, so all are lucky once in 10^15 runs.
const ATTACHMENTS: usize = 100;

impl Scene {
    /// Nova and Cinder agree that nothing is attached, and nothing is left.
    fn assert_nothing_attached(&self) {
        let token = self.account.log_in().unwrap();
        let attached = self.account.volumes_of_instance(&token, &self.node);
        assert_eq!(attached.unwrap(), [""; 0]);
        self.assert_nothing_left();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_lives_on_an_instance_leave_nothing_attached() {
    let scene = Scene::on_instance(Cinder::shared().unwrap(), 0, &[]).await;
    live_at_once(&scene, &[]).await;
    let nova = scene.nova.as_ref().unwrap();
    let attach = format!("POST /v2.1/servers/{}/os-volume_attachments", scene.node);
    assert_eq!(nova.answered(&attach), AT_ONCE);
    // Keystone's token is good for both.
    assert_eq!(scene.logins(), 1);
    assert_eq!(scene.proxy.answered("POST /v3/attachments"), 0);
    scene.assert_nothing_attached();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_lives_on_an_instance_survive_a_bad_network() {
    let scene = Scene::on_instance(Cinder::shared().unwrap(), ONE_OF, &[]).await;
    live_at_once(&scene, &RETRIED).await;
    let nova = scene.nova.as_ref().unwrap();
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let create = || orchestrator.create(requests::create("more", GIB));
    let (id, _) = patiently(&RETRIED, create).await.unwrap();
    // A life makes few requests to Nova, and all of them may have been lucky.
    for _ in 0..ATTACHMENTS {
        if !nova.done().is_empty() {
            break;
        }
        let attach = || orchestrator.attach(&id, &scene.node);
        patiently(&RETRIED, attach).await.unwrap();
        let detach = || orchestrator.detach(&id, &scene.node);
        patiently(&RETRIED, detach).await.unwrap();
    }
    assert!(!nova.done().is_empty(), "{nova}");
    let delete = || orchestrator.delete(&id);
    patiently(&RETRIED, delete).await.unwrap();
    scene.assert_nothing_attached();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_volume_outlives_its_instance() {
    let scene = Scene::on_instance(Cinder::shared().unwrap(), 0, &[]).await;
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let created = orchestrator.create(requests::create("a", GIB));
    let (id, _) = created.await.unwrap();

    let nowhere = orchestrator.attach(&id, UNKNOWN).await;
    assert_eq!(code(&nowhere), Code::NotFound, "{nowhere:?}");
    orchestrator.detach(&id, UNKNOWN).await.unwrap();

    // Each of both calls may come twice.
    for _ in 0..2 {
        orchestrator.attach(&id, &scene.node).await.unwrap();
    }
    let elsewhere = orchestrator.attach(&id, UNKNOWN).await;
    assert_eq!(code(&elsewhere), Code::FailedPrecondition, "{elsewhere:?}");
    let in_use = orchestrator.delete(&id).await;
    assert_eq!(code(&in_use), Code::FailedPrecondition, "{in_use:?}");
    for _ in 0..2 {
        orchestrator.detach(&id, &scene.node).await.unwrap();
    }

    orchestrator.attach(&id, &scene.node).await.unwrap();
    let token = scene.account.log_in().unwrap();
    scene.account.delete_instance(&token, &scene.node).unwrap();
    // While Nova deletes the instance, it refuses to detach: the client tries again.
    let detach = || orchestrator.detach(&id, &scene.node);
    patiently(&[Code::Aborted], detach).await.unwrap();
    let gone = || async {
        match orchestrator.attach(&id, &scene.node).await {
            Ok(_) => Err(Status::unavailable("the instance is still there")),
            Err(error) => Err::<(), _>(error),
        }
    };
    let gone = patiently(&[Code::Unavailable, Code::Aborted], gone).await;
    assert_eq!(code(&gone), Code::NotFound, "{gone:?}");
    orchestrator.delete(&id).await.unwrap();
    scene.assert_nothing_left();
}
