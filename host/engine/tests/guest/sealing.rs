//! Sealed secrets of live guests: misbehave seals in its controller service, and cephfs passes the text on in its node service.

use crate::harness::{
    Fixture, attributes, call, load, misbehave, mounted, parts, secrets, volume_id,
};
use crate::memory::Memory;
use std::sync::Arc;
use std::time::Duration;
use wasmount_core::attributes::Attributes;
use wasmount_core::backend::{Backend, BackendError, NodeStage};
use wasmount_core::blame::{Blame, Owner};
use wasmount_core::code::Code;
use wasmount_core::document::{Limits, SealingGrant};
use wasmount_core::plan::Plan;
use wasmount_core::rpc::Rpc;
use wasmount_engine::{BackendParts, LoadedComponent, Sealing};

/// What misbehave seals for the only volume that it makes.
const KEY: &str = "key-of-volume-1";

/// A plugin with a secret for sealing; without one it is not granted.
async fn plugin(component: &LoadedComponent, secret: Option<&str>) -> Fixture {
    let memory = Arc::new(Memory::default());
    let parts = parts(&memory, Limits::default(), secrets(&[]));
    let sealing = secret.map(|secret| {
        let grant = SealingGrant {
            secret: "seal".to_owned(),
            previous_secrets: Vec::new(),
        };
        Sealing::of(&parts.driver, &grant, &secrets(&[("seal", secret)])).unwrap()
    });
    let parts = BackendParts {
        sealing,
        settings: attributes(&[("monitors", "192.0.2.1:6789")]),
        ..parts
    };
    let begun = call(Rpc::GetPluginInfo, Duration::from_secs(60));
    let candidate = component.prepare(parts, &begun).await.unwrap();
    let info = candidate.plugin_info(&begun).await.unwrap();
    Fixture::around(candidate.into_backend(info, []), memory)
}

fn secret(digit: &str) -> String {
    digit.repeat(32)
}

/// The text that a controller with this secret seals.
async fn sealed(secret: &str) -> String {
    let controller = plugin(misbehave().await, Some(secret)).await;
    let volume = controller.create("seal").await.unwrap();
    let again = controller.create("seal").await.unwrap();
    assert_eq!(volume.context, again.context);
    volume.context.get("sealedKey").unwrap().to_owned()
}

/// The plan of cephfs for a volume with this text.
async fn staged(node: &Fixture, text: &str) -> Result<Plan, BackendError> {
    let context = [
        ("fsName", "cephfs"),
        ("subvolumePath", "/volumes/csi/a"),
        ("user", "a"),
        ("sealedKey", text),
    ];
    let args = NodeStage {
        id: volume_id("volume-1"),
        capability: mounted(),
        publish_context: Attributes::default(),
        volume_context: attributes(&context),
    };
    let staging = node.call(Rpc::NodeStageVolume);
    node.backend.node_stage(&staging, args).await
}

fn opened(node: &Fixture, volume: &str, plan: &Plan) -> Result<String, BackendError> {
    let staging = node.call(Rpc::NodeStageVolume);
    let options = node
        .backend
        .secret_options(&staging, &volume_id(volume), plan)?;
    Ok(options.get("secret").unwrap().to_owned())
}

#[tokio::test]
async fn a_sealed_key_reaches_the_mount_and_not_the_plan() {
    let text = sealed(&secret("a")).await;
    assert!(!text.contains(KEY), "{text}");
    let node = plugin(&load("cephfs").await, Some(&secret("a"))).await;
    let plan = staged(&node, &text).await.unwrap();
    let pair = ("secret".to_owned(), text);
    assert_eq!(plan.source.sealed_options(), [pair]);
    assert!(!format!("{plan:?}").contains(KEY));
    assert_eq!(opened(&node, "volume-1", &plan).as_deref(), Ok(KEY));
}

#[tokio::test]
async fn a_text_that_does_not_open_is_no_fault_of_the_plugin() {
    let text = sealed(&secret("a")).await;
    let cephfs = load("cephfs").await;
    let (same, other) = (secret("a"), secret("b"));
    let mut changed = text.clone();
    let last = changed.pop().unwrap();
    changed.push(if last == 'A' { 'Q' } else { 'A' });
    for (key, volume, text) in [
        (&same, "volume-2", &text),
        (&other, "volume-1", &text),
        (&same, "volume-1", &changed),
    ] {
        let node = plugin(&cephfs, Some(key)).await;
        let plan = staged(&node, text).await.unwrap();
        match opened(&node, volume, &plan) {
            Err(BackendError::Refused {
                code: Code::FailedPrecondition,
                reason,
                blame: Blame::Of(Owner::Request),
                ..
            }) => assert!(reason.contains("cannot be opened"), "{reason}"),
            other => panic!("{volume}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_sealed_value_counts_as_a_secret_of_the_call() {
    let controller = plugin(misbehave().await, Some(&secret("a"))).await;
    match controller.create("seal-and-tell").await {
        Err(BackendError::BadAnswer { reason, .. }) => {
            assert!(!reason.contains(KEY), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn without_a_grant_nothing_is_sealed_or_staged() {
    let text = sealed(&secret("a")).await;
    let controller = plugin(misbehave().await, None).await;
    let node = plugin(&load("cephfs").await, None).await;
    let answers = [
        controller.create("seal-not-granted").await.map(drop),
        staged(&node, &text).await.map(drop),
    ];
    for answer in answers {
        match answer {
            Err(BackendError::Refused { code, reason, .. }) => {
                assert_eq!(code, Code::PermissionDenied);
                assert!(reason.contains("grants.sealing"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
}
