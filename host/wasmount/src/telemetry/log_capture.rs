//! Captures the log of a plugin, and why its requests failed, instead of writing them: for a command that shows them beside the answer.

use serde_json::Value;
use std::sync::{Arc, Mutex};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_serde::fields::AsMap;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use wasmount_core::mutex::lock;

/// The log target of plugins' messages.
const GUESTS: &str = "wasmount::guest";

/// The log target of requests to storage systems: only the host knows the address and the cause, since the plugin gets one of `wasi:http`'s codes.
const REQUESTS: &str = "wasmount_engine::http";

/// One line of a plugin, or of the host about a request of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogRecord {
    /// The plugin's level; standard output is INFO, standard error WARN.
    pub(crate) level: Level,
    /// The text, and the reason that the host gives; secrets were replaced.
    pub(crate) text: String,
}

/// The messages of all plugins in this process. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogCapture(Arc<Mutex<Vec<LogRecord>>>);

impl LogCapture {
    /// Starts to capture until the process ends.
    pub(crate) fn listen() -> Self {
        let log_capture = Self::default();
        // A subscriber that is already installed stays.
        let _ = tracing_subscriber::registry()
            .with(log_capture.clone())
            .try_init();
        log_capture
    }

    /// The messages since the last call.
    pub(crate) fn take(&self) -> Vec<LogRecord> {
        std::mem::take(&mut *lock(&self.0))
    }
}

impl<S: Subscriber> Layer<S> for LogCapture {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        [GUESTS, REQUESTS].contains(&metadata.target())
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let fields = serde_json::to_value(event.field_map()).unwrap_or_default();
        let field = |name: &str| fields.get(name).and_then(Value::as_str);
        let text = field("message").unwrap_or_default();
        let record = LogRecord {
            level: *event.metadata().level(),
            text: match field("reason") {
                Some(reason) => format!("{text}: {reason}"),
                None => text.to_owned(),
            },
        };
        lock(&self.0).push(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_plugin_and_of_its_requests_are_kept_alone() {
        let log_capture = LogCapture::default();
        let subscriber = tracing_subscriber::registry().with(log_capture.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!(target: "wasmount::guest", driver = "a.b", "made {}", 7);
            tracing::error!(target: "wasmount_csi::status", reason = "x", "call failed");
            tracing::warn!(target: "wasmount_engine::http", reason = "refused", "no answer");
        });
        let record = |level, text: &str| LogRecord {
            level,
            text: text.to_owned(),
        };
        let made = record(Level::DEBUG, "made 7");
        let refused = record(Level::WARN, "no answer: refused");
        assert_eq!(log_capture.take(), [made, refused]);
        assert_eq!(log_capture.take(), []);
    }
}
