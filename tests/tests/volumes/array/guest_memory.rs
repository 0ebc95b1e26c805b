//! The linear memory of a plugin that has had answers of an array holds neither its password, a token nor the private key of the host. The host holds
//! all of them elsewhere, by design.

use super::Scene;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use wasmount_tests::array::{ArrayOptions, PASSWORD, TOKEN_PREFIX};
use wasmount_tests::guest_memory::HostMemory;
use wasmount_tests::orchestrator::VOLUME_BYTES;
use wasmount_tests::requests;
use wasmount_tests::secret_search::SecretSearch;

/// The volume is never ready, so the plugin waits for it.
const NEVER: Duration = Duration::from_secs(86_400);

/// The name of the volume, which the plugin must know.
const NAME: &str = "pvc-of-a-plugin-that-waits";

/// Until the array has the volume. Generous: other tests share the machine.
const CREATED: Duration = Duration::from_secs(60);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

#[tokio::test(flavor = "multi_thread")]
async fn privileged_a_plugins_memory_has_no_password_token_or_key() {
    let options = ArrayOptions {
        job: NEVER,
        ..ArrayOptions::default()
    };
    let mut scene = Scene::of(0, options).await;
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let creating = tokio::spawn(async move {
        orchestrator
            .create(requests::create(NAME, VOLUME_BYTES))
            .await
    });
    let start = Instant::now();
    while scene.array.counts().created == 0 {
        assert!(start.elapsed() < CREATED, "{}", scene.host.log());
        sleep(LOOK).await;
    }
    let memory = HostMemory::of(scene.host.id()).unwrap();
    assert!(!creating.is_finished(), "the plugin did not wait");
    let known = SecretSearch::of([NAME]).unwrap();
    assert_eq!(memory.linear.found(&known), known.all());
    // A look at memory finds what is there.
    let [key_line, ..] = scene.front.key_forms();
    let held = SecretSearch::of([PASSWORD.into(), TOKEN_PREFIX.into(), key_line]).unwrap();
    assert_eq!(memory.other.found(&held), held.all());
    assert_eq!(memory.linear.found(&scene.secrets()), [].into());
    // The call would wait until its time is over.
    scene.host.kill_9().unwrap();
}
