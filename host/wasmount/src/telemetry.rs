//! Log lines on standard error, as text or JSON, and panics among them. Apart because it is process-wide and set once.
//!
//! It does not know what is logged; no room hands it a request or a secret.

use clap::ValueEnum;
use std::io::{self, IsTerminal};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Form of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// Levels as `info` or `wasmount_mount=debug,info`.
pub(crate) fn levels(word: &str) -> Result<Targets, String> {
    word.parse::<Targets>()
        .map_err(|error| format!("{error}; such as `info` or `wasmount_mount=debug,info`"))
}

/// Starts logging for the life of the process; a second call changes nothing.
pub(crate) fn start(format: LogFormat, levels: Targets) {
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let registry = tracing_subscriber::registry().with(levels);
    let started = match format {
        LogFormat::Text => registry
            .with(lines.with_ansi(io::stderr().is_terminal()))
            .try_init(),
        LogFormat::Json => registry
            .with(lines.json().flatten_event(true).with_current_span(true))
            .try_init(),
    };
    if started.is_ok() {
        std::panic::set_hook(Box::new(log_panic));
    }
}

/// A panic ends one task, not the process: without this line nobody would know why a call was lost.
fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let place = panic
        .location()
        .map(ToString::to_string)
        .unwrap_or_default();
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or_default();
    let reason = panic.payload_as_str().unwrap_or_default();
    tracing::error!(place, thread, reason, "bug of the host: a task panicked");
}
