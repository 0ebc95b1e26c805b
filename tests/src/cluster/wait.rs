//! Waits for conditions of a cluster that become true eventually.

use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client};
use std::fmt::Write;
use std::time::{Duration, Instant};
use xtask::failure::Failure;

/// Longer than the slowest valid case: kubelet's and the sidecars' retries back off up to a minute, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(150);

/// Pause between two checks. The API server answers in milliseconds, and many tests check concurrently.
const LOOK: Duration = Duration::from_millis(200);

/// Events that a failure shows: the latest.
const EVENTS: usize = 25;

/// A description of the actual state.
#[derive(Debug)]
pub struct NotYet(pub String);

impl From<kube::Error> for NotYet {
    fn from(error: kube::Error) -> Self {
        // Also when the API server is down: it will be restarted.
        Self(error.to_string())
    }
}

impl From<Failure> for NotYet {
    fn from(failure: Failure) -> Self {
        Self(failure.to_string())
    }
}

/// Repeats a check until it returns a value; fails with the last state that was seen, and with the events of the namespace.
pub async fn wait_for<T>(
    client: &Client,
    namespace: &str,
    what: &str,
    mut look: impl AsyncFnMut() -> Result<T, NotYet>,
) -> Result<T, Failure> {
    let start = Instant::now();
    loop {
        let NotYet(instead) = match look().await {
            Ok(found) => return Ok(found),
            Err(not_yet) => not_yet,
        };
        if start.elapsed() > PATIENCE {
            return Err(Failure::Unexpected(format!(
                "waited {} s in vain: {what}; last seen: {instead}\n{}",
                PATIENCE.as_secs(),
                events(client, namespace).await
            )));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The latest events of a namespace, as `kubectl get events` shows them; the error message if they cannot be read.
pub async fn events(client: &Client, namespace: &str) -> String {
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let mut events = match api.list(&ListParams::default()).await {
        Ok(list) => list.items,
        Err(error) => return format!("no events: {error}"),
    };
    events.sort_by_key(version);
    let mut text = String::from("events:\n");
    for event in events.iter().rev().take(EVENTS).rev() {
        let object = &event.involved_object;
        let _ = writeln!(
            text,
            "  {} {}/{}: {} (x{})",
            event.reason.as_deref().unwrap_or_default(),
            object.kind.as_deref().unwrap_or_default(),
            object.name.as_deref().unwrap_or_default(),
            event.message.as_deref().unwrap_or_default(),
            event.count.unwrap_or(1),
        );
    }
    text
}

/// etcd counts its changes, so the larger number is the later event.
fn version(event: &Event) -> u64 {
    let version = event.metadata.resource_version.as_deref();
    version.and_then(|it| it.parse().ok()).unwrap_or_default()
}
