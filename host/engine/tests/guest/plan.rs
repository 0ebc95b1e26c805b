//! Plans of a live guest: recorded while a volume is staged, rejected for good if a rule is violated. The single rules are unit tests of the
//! recorder.

use crate::harness::{Fixture, misbehave, secrets, volume_id};
use std::collections::BTreeMap;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{Backend, BackendError};
use wasmount_core::blame::{Blame, Owner};
use wasmount_core::code::Code;
use wasmount_core::document::Limits;
use wasmount_core::plan::{Plan, Source};
use wasmount_core::rpc::Rpc;

fn bad_answer(answer: Result<impl std::fmt::Debug, BackendError>) -> String {
    match answer {
        Err(BackendError::BadAnswer { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_plan_is_what_was_recorded() {
    assert_eq!(
        Fixture::misbehave().await.stage("").await.unwrap(),
        Plan {
            source: Source::Directory {
                pool: "volumes".to_owned(),
                path: "volume-1".to_owned()
            },
            default_fs_type: Some("ext4".to_owned()),
            mount_options: vec!["noatime".to_owned()],
            notes: BTreeMap::from([("made-by".to_owned(), "misbehave".to_owned())]),
            luks: None,
        }
    );
}

#[tokio::test]
async fn rules_of_recording_violated() {
    let mut fixture = Fixture::misbehave().await;
    fixture.secrets = secrets(&[("password", "tr0ub4dor")]);
    for (behaviour, expected) in [
        ("no-source", "it recorded no source"),
        (
            "two-sources",
            "step `image` is refused: the plan has a source already",
        ),
        // In the following cases the guest passes the error on; it is still responsible.
        (
            "secret-in-plan",
            "step `filesystem` is refused: a string contains the value of a secret",
        ),
        (
            "huge-plan",
            "step `note` is refused: the notes of a volume hold more than 4 KiB",
        ),
        (
            "nine-alternatives",
            "step `any-device` is refused: the list of alternatives has more than 8 sets of facts",
        ),
        (
            "huge-files",
            "step `files` is refused: its files hold more than 1 MiB",
        ),
    ] {
        let reason = bad_answer(fixture.stage(behaviour).await);
        assert!(reason.starts_with(expected), "{behaviour}: {reason}");
    }
}

#[tokio::test]
async fn alternatives_of_a_device_are_recorded_in_their_order() {
    let plan = Fixture::misbehave().await.stage("any-device").await;
    let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let alternatives = vec![
        vec![fact("by-id", "virtio-a")],
        vec![fact("serial", "a"), fact("partition", "1")],
    ];
    let expected = Source::AnyDevice {
        alternatives: alternatives.try_into().unwrap(),
        rescan: true,
        wait_ms: 7,
    };
    assert_eq!(plan.unwrap().source, expected);
}

#[tokio::test]
async fn a_secret_that_a_request_lacks_is_its_fault() {
    match Fixture::misbehave().await.stage("unknown-secret").await {
        Err(BackendError::Refused {
            code: Code::InvalidArgument,
            reason,
            blame: Blame::Of(Owner::Request),
            ..
        }) => assert!(reason.contains("node-stage-secret-name"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_secret_by_name_obeyed() {
    let mut fixture = Fixture::misbehave().await;
    fixture.secrets = secrets(&[("password", "tr0ub4dor")]);
    let plan = fixture.stage("secret-by-name").await.unwrap();
    assert!(matches!(
        &plan.source,
        Source::Filesystem { secret_options, .. }
            if *secret_options == [("password".to_owned(), "password".to_owned())]
    ));
    assert!(!format!("{plan:?}").contains("tr0ub4dor"));
}

#[tokio::test]
async fn a_document_secret_is_named_and_never_read() {
    let document = secrets(&[("account", "tr0ub4dor")]);
    let fixture = Fixture::of(misbehave().await, Limits::default(), document).await;
    let plan = fixture.stage("backend-secret-by-name").await.unwrap();
    assert!(matches!(
        &plan.source,
        Source::Filesystem { backend_secret_options, .. }
            if *backend_secret_options == [("password".to_owned(), "account".to_owned())]
    ));
    assert!(!format!("{plan:?}").contains("tr0ub4dor"));
    let call = fixture.call(Rpc::NodeStageVolume);
    let options = fixture
        .backend
        .secret_options(&call, &volume_id("volume-1"), &plan);
    assert_eq!(options.unwrap().get("password"), Some("tr0ub4dor"));
}

#[tokio::test]
async fn a_secret_that_the_document_lacks_is_the_administrators() {
    let mut fixture = Fixture::misbehave().await;
    // A request cannot stand in for the document.
    fixture.secrets = secrets(&[("account", "tr0ub4dor")]);
    match fixture.stage("backend-secret-by-name").await {
        Err(BackendError::Refused {
            code: Code::FailedPrecondition,
            reason,
            blame: Blame::Of(Owner::Administrator),
            ..
        }) => assert!(reason.contains("spec.secrets"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_plan_is_dropped_when_the_guest_fails() {
    assert_eq!(
        Fixture::misbehave().await.stage("error-after-source").await,
        Err(BackendError::Answered {
            code: Code::Unavailable,
            message: "changed my mind".to_owned()
        })
    );
}

#[tokio::test]
async fn steps_outside_of_staging_violated() {
    let fixture = Fixture::misbehave().await;
    for (behaviour, expected) in [
        ("step-outside", "step `directory` is refused"),
        ("ignored-step-outside", "step `tmpfs` is refused"),
    ] {
        let reason = bad_answer(fixture.create(behaviour).await);
        assert!(reason.starts_with(expected), "{behaviour}: {reason}");
    }
    let call = fixture.call(Rpc::NodeUnstageVolume);
    let hook =
        fixture
            .backend
            .before_unstage(&call, volume_id("step-outside"), Attributes::default());
    assert!(matches!(hook.await, Err(BackendError::BadAnswer { .. })));
}
