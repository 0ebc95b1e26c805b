//! The events that a host writes, joined: faults of each driver's plugin, and what is wrong with the host on its node.
//!
//! What is said and how often is decided in `wasmount_kubernetes`.

use crate::readiness::Readiness;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use wasmount_kubernetes::{Events, NodeTroubles};

/// After this long what could not be said is tried again, though nothing has changed. 60 s: an API server that restarts is away for less.
const AGAIN: Duration = Duration::from_secs(60);

/// Tells what is wrong with the host, and that it is over.
pub(super) async fn tell_troubles(events: Events, node: String, readiness: Arc<Readiness>) {
    let mut changes = readiness.watch();
    let mut troubles = NodeTroubles::new(events, node);
    loop {
        let now = changes.borrow_and_update().troubles();
        troubles.now(&now).await;
        if let Ok(Err(_)) = timeout(AGAIN, changes.changed()).await {
            return;
        }
    }
}
