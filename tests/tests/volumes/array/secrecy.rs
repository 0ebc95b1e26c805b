//! A password, the tokens of its sessions and a private key are nowhere that a person or a program may look: not in logs and spans of any level,
//! metrics, answers of the admin socket, the history of versions, and the directories of the host.

use super::Scene;
use super::lives::live;
use futures::future::join_all;
use std::sync::atomic::{AtomicUsize, Ordering};
use wasmount_tests::array::ArrayOptions;
use wasmount_tests::health::Health;
use wasmount_tests::secret_search::logging_everything;

/// Lives side by side.
const LIVES: usize = 8;

/// One request of so many meets a fault.
const ONE_OF: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn privileged_no_password_token_or_key_of_an_array_is_shown() {
    let health = Health::at_a_free_port().unwrap();
    let mut scene = Scene::with(ONE_OF, ArrayOptions::default(), logging_everything(), &[]).await;
    scene.host.options().health = health.address();
    scene.host.restart().unwrap();
    let orchestrator = scene.host.orchestrator().await.unwrap();
    let ended = AtomicUsize::new(0);
    let lives = (0..LIVES).map(async |number| {
        let lived = live(&orchestrator, &format!("pvc-{number}")).await;
        // Once: a request that is refused again after a new login has wrong credentials.
        if ended.fetch_add(1, Ordering::Relaxed) + 1 == LIVES / 2 {
            scene.array.expire_sessions();
        }
        lived
    });
    let mut lived = join_all(lives).await;
    scene.array.expire_sessions();
    lived.push(live(&orchestrator, "pvc-last").await);
    for lived in lived {
        assert!(lived.is_ok(), "{lived:?}\n{}", scene.proxy);
    }
    assert!(scene.array.counts().logins > 1, "{}", scene.proxy);
    let shown = scene
        .secrets()
        .shown_by(&scene.host, &health, "array.wasmount.io");
    assert_eq!(shown.unwrap(), [""; 0]);
    // What is kept, again at its end.
    scene.end();
}
