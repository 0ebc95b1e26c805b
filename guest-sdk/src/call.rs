//! The current call: its budget, its name in the logs, and the settings that the administrator gave.
//!
//! For secrets see [`crate::secrets`].

use crate::attributes::Attributes;
use crate::imports;
use std::time::Duration;

/// What is left of the backend's own budget (`limits.time` of its document). It is not the client's deadline: when the client gives up, the call
/// continues to its end, so that the retry finds the work done.
pub fn remaining() -> Duration {
    Duration::from_millis(imports::call::remaining_ms())
}

/// The host is shutting down or the budget is spent: stop at the next safe point.
pub fn is_cancelled() -> bool {
    imports::call::is_cancelled()
}

/// The identifier of this call in the host's log and traces.
pub fn request_id() -> String {
    imports::call::request_id()
}

/// The name of the node where this host runs; `None` when it runs as a controller away from the nodes.
pub fn node_name() -> Option<String> {
    imports::call::node_name()
}

/// The settings of this backend (`settings` of its document); never secret.
pub fn settings() -> Attributes {
    imports::call::settings()
}
