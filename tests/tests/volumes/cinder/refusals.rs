//! What Cinder and Keystone refuse, lose or fail at, and the code that a client of the host gets: README.md of plugins/cinder has them.

use super::driver::{GIB, Scene};
use serde_json::Value;
use std::time::{Duration, Instant};
use tonic::{Code, Status};
use wasmount_csi::wire::csi::v1::CreateVolumeRequest;
use wasmount_tests::cinder::AccountOptions;
use wasmount_tests::copies::snapshot;
use wasmount_tests::orchestrator::{Orchestrator, code, patiently};
use wasmount_tests::requests;

/// Volumes of the project.
const QUOTA: u32 = 2;

/// Calls with a credential that is there no more.
const CALLS: usize = 20;

/// How long a refused login is the answer to all calls (`host/network/src/login.rs`).
const REFUSAL_LASTS: Duration = Duration::from_secs(10);

async fn create_of(orchestrator: &Orchestrator, volume_type: &str) -> Result<(), Status> {
    let request = CreateVolumeRequest {
        parameters: [("type".to_owned(), volume_type.to_owned())].into(),
        ..requests::create("of-a-type", GIB)
    };
    orchestrator.create(request).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_refusals_of_cinder_are_codes_of_csi() {
    let options = AccountOptions {
        quota_volumes: Some(QUOTA),
        ..AccountOptions::default()
    };
    let scene = Scene::of(0, options, &[]).await;
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let create = |name| orchestrator.create(requests::create(name, GIB));

    let unknown = create_of(&orchestrator, "no-such-type").await.unwrap_err();
    assert_eq!(unknown.code(), Code::InvalidArgument, "{unknown:?}");
    assert!(unknown.message().contains("`no-such-type`"), "{unknown:?}");

    // Cinder accepts both, and fails later: what is left is removed.
    let nowhere = create_of(&orchestrator, "absent").await;
    assert_eq!(code(&nowhere), Code::ResourceExhausted, "{nowhere:?}");
    let failed = create("fails-to-create").await;
    assert_eq!(code(&failed), Code::ResourceExhausted, "{failed:?}");

    let (attached, _) = create("attached").await.unwrap();
    orchestrator.attach(&attached, &scene.node).await.unwrap();
    let in_use = orchestrator.delete(&attached).await;
    assert_eq!(code(&in_use), Code::FailedPrecondition, "{in_use:?}");

    let (stuck, _) = create("fails-to-delete").await.unwrap();
    let over = create("over-the-quota").await;
    assert_eq!(code(&over), Code::ResourceExhausted, "{over:?}");
    let fails = orchestrator.delete(&stuck).await;
    assert_eq!(code(&fails), Code::Unavailable, "{fails:?}");

    orchestrator.detach(&attached, &scene.node).await.unwrap();
    orchestrator.delete(&attached).await.unwrap();
    assert_eq!(scene.names("volumes"), ["fails-to-delete"]);
    assert_eq!(scene.names("attachments"), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_volume_that_cinder_lost_is_not_found() {
    let scene = Scene::of(0, AccountOptions::default(), &[]).await;
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let (lost, _) = orchestrator
        .create(requests::create("a", GIB))
        .await
        .unwrap();
    let token = scene.account.log_in().unwrap();
    let path = format!("/v3/volumes/{lost}");
    let deleted = scene.account.ask("DELETE", &path, &token, &Value::Null);
    assert_eq!(deleted.unwrap().status, 202);
    let gone = || async {
        match orchestrator.is_known(&lost).await {
            Ok(()) => Err(Status::unavailable("Cinder is deleting it")),
            known => known,
        }
    };
    assert_eq!(
        code(&patiently(&[Code::Unavailable], gone).await),
        Code::NotFound
    );
    let grown = orchestrator.expand(requests::expand(&lost, 2 * GIB)).await;
    assert_eq!(code(&grown), Code::NotFound, "{grown:?}");
    let attached = orchestrator.attach(&lost, &scene.node).await;
    assert_eq!(code(&attached), Code::NotFound, "{attached:?}");
    let taken = snapshot(&orchestrator, &lost, "s").await;
    assert_eq!(code(&taken), Code::NotFound, "{taken:?}");
    orchestrator.detach(&lost, &scene.node).await.unwrap();
    orchestrator.delete(&lost).await.unwrap();
    let again = orchestrator.create(requests::create("a", GIB));
    let (again, _) = again.await.unwrap();
    assert_ne!(again, lost);
    orchestrator.delete(&again).await.unwrap();
    scene.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_withdrawn_credential_is_named_without_a_storm() {
    // Keystone's answers to an application credential and to a user that it does not have.
    for (has_password, status) in [(false, "404"), (true, "401")] {
        let account = AccountOptions {
            has_password,
            ..AccountOptions::default()
        };
        let scene = Scene::of(0, account, &[]).await;
        let orchestrator = scene.host.orchestrator().await.unwrap();
        let create = |name| orchestrator.create(requests::create(name, GIB));
        create("before").await.unwrap();
        assert_eq!(scene.logins(), 1);
        let start = Instant::now();
        scene.cinder.withdraw(&scene.account).unwrap();
        for _ in 0..CALLS {
            let refused = create("after").await.unwrap_err();
            assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
            for words in [
                &format!("the login was answered with {status}"),
                "`credential-secret` in `secrets`",
                "`grants.network.keystone.auth.session.login`",
            ] {
                assert!(refused.message().contains(words), "{refused:?}");
            }
            let secret = scene.account.credential().value();
            assert!(!refused.message().contains(secret));
        }
        // The first, one that is refused, and one for each time that a refusal lasts.
        let most = 2 + start.elapsed().as_secs() / REFUSAL_LASTS.as_secs();
        let logins = u64::try_from(scene.logins()).unwrap();
        assert!((2..=most).contains(&logins), "{logins} logins of {most}");
    }
}
