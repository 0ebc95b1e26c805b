//! Captures the log of a plugin instead of writing it: for a command that shows it beside the answer.

use std::fmt;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use wasmount_core::mutex::lock;

/// The log target of plugins' messages.
const GUESTS: &str = "wasmount::guest";

/// One line of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogRecord {
    /// The plugin's level; standard output is INFO, standard error WARN.
    pub(crate) level: Level,
    /// The text; secrets were replaced.
    pub(crate) text: String,
}

/// The messages of all plugins in this process. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogCapture(Arc<Mutex<Vec<LogRecord>>>);

struct Message(String);

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
        metadata.target() == GUESTS
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        let record = LogRecord {
            level: *event.metadata().level(),
            text: message.0,
        };
        lock(&self.0).push(record);
    }
}

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_plugin_says_is_kept_and_what_the_host_says_is_not() {
        let log_capture = LogCapture::default();
        let subscriber = tracing_subscriber::registry().with(log_capture.clone());
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!(target: "wasmount::guest", driver = "a.b", "made {}", 7);
            tracing::error!(target: "wasmount_csi::status", "call failed");
        });
        let record = LogRecord {
            level: Level::DEBUG,
            text: "made 7".to_owned(),
        };
        assert_eq!(log_capture.take(), [record]);
        assert_eq!(log_capture.take(), []);
    }
}
