//! csi-sanity, controller and node: a volume that Cinder has attached is a loop device with the name that virtio would give it.

use super::driver::{GIB, Scene, SceneOptions};
use super::lives::{SHORT, lifetimes};
use super::node_facts::Metadata;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;
use wasmount_core::node_fact::METADATA_SERVICE;
use wasmount_tests::cinder::{AccountOptions, Cinder};
use wasmount_tests::fault_proxy::Fault;
use wasmount_tests::namespace::enter_network;
use wasmount_tests::retrying_proxy::RetryingProxy;
use wasmount_tests::sanity::{SECRET, SanityRun};
use xtask::tools::CSI_SANITY_5_4;

/// Specs of csi-sanity 5.4.0 for what plugins/cinder exports.
const OFFERED: usize = 75;

/// Those for groups (6), modification (8) and `readonly` of an attachment, which it does not offer, and the one for the limit of a node, which Cinder
/// does not have: Kubernetes' scheduler keeps `nodeVolumeAttachLimit`.
const NOT_OFFERED: usize = 16;

/// One request of so many meets a fault.
const ONE_OF: usize = 12;

/// No limit of a node: Cinder keeps none.
const NO_LIMIT: (&str, &str) = ("nodeVolumeAttachLimit", "0");

/// Every spec passes that the plugin does not skip, by way of this socket.
fn assert_passes(scene: &Scene, endpoint: &Path) {
    let outcome = SanityRun {
        tool: CSI_SANITY_5_4,
        endpoint,
        controller_endpoint: None,
        directory: &scene.host.paths(),
        access_type: "mount",
        parameters: &[],
        mutable_parameters: &[],
    };
    let outcome = outcome.run_with(GIB.cast_unsigned()).unwrap();
    assert!(
        outcome.failed.is_empty(),
        "{:#?}\n{}\nKeystone: {}\nOpenStack: {}",
        outcome.failed,
        scene.proxy,
        scene.keystone,
        scene.cinder.errors()
    );
    assert_eq!(
        (outcome.passed, outcome.skipped.len()),
        (OFFERED, NOT_OFFERED),
        "skipped: {:#?}",
        outcome.skipped
    );
    assert!(!scene.host.log().contains(SECRET), "a secret was logged");
    scene.assert_nothing_left();
}

/// The same with a client that repeats calls, as those of CSI do and csi-sanity does not.
async fn assert_passes_repeating(scene: &Scene) {
    scene.host.client().await.unwrap();
    let socket = scene.host.root().join("retrying.sock");
    let client = RetryingProxy::start(scene.host.socket(), &socket);
    let client = client.await.unwrap();
    assert_passes(scene, client.socket());
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_sanity_cinder() {
    let settings = [NO_LIMIT, ("zone", "zone-a")];
    let scene = Scene::of(0, AccountOptions::default(), &settings).await;
    scene.host.client().await.unwrap();
    assert_passes(&scene, scene.host.socket());
    assert_eq!(scene.logins(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn privileged_sanity_cinder_on_a_bad_network() {
    let account = AccountOptions {
        token_lifetime: Some(SHORT),
        ..AccountOptions::default()
    };
    let scene = Scene::with(SceneOptions {
        one_of: ONE_OF,
        keystone_one_of: ONE_OF,
        account,
        settings: &[NO_LIMIT, ("zone", "zone-a")],
        ..SceneOptions::default()
    })
    .await;
    // A login is rare, so the first one is unlucky by decree.
    scene.keystone.force(Fault::DropAfter);
    let start = Instant::now();
    assert_passes_repeating(&scene).await;
    assert!(scene.proxy.done().len() > 5, "{}", scene.proxy);
    // One at first, one for each end of a token, and those whose answer did not arrive.
    let expected = 1 + lifetimes(start) + scene.unheard_logins();
    let logins = scene.logins();
    assert!(
        (2..=expected).contains(&logins),
        "{logins} logins, {expected} expected; {}",
        scene.keystone
    );
}

#[test]
fn privileged_sanity_cinder_attached_by_nova() {
    // A namespace belongs to a thread and to what it starts, and the metadata service has one address: all services are in it.
    let test = thread::spawn(|| {
        enter_network(*METADATA_SERVICE.ip());
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let cinder = Arc::new(Cinder::start().unwrap());
            let scene = Scene::on_instance(cinder, 0, &[NO_LIMIT]).await;
            let instance = json!({ "uuid": scene.node, "availability_zone": "zone-a" });
            Metadata::start(&instance.to_string(), false);
            // Nova detaches in the background, and a busy machine may need longer than a call lasts.
            assert_passes_repeating(&scene).await;
            assert_eq!(scene.logins(), 1);
            let token = scene.account.log_in().unwrap();
            let attached = scene.account.volumes_of_instance(&token, &scene.node);
            assert_eq!(attached.unwrap(), [""; 0]);
            assert_eq!(scene.proxy.answered("POST /v3/attachments"), 0);
        });
    });
    if let Err(panic) = test.join() {
        std::panic::resume_unwind(panic);
    }
}
