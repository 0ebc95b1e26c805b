//! Log lines on standard error, as text or JSON, and panics among them; traces, if they are exported.

mod json;
mod log_capture;
mod steps;
mod traces;

pub(crate) use log_capture::{LogCapture, LogRecord};
pub(crate) use steps::steps_of;
pub(crate) use traces::{Collector, Traces};

use crate::visible;
use clap::ValueEnum;
use json::JsonLine;
use std::fmt;
use std::io::{self, IsTerminal};
use std::str::FromStr;
use std::sync::{Mutex, OnceLock};
use steps::StepLayer;
use tracing::Subscriber;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{JsonFields, Writer, debug_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, reload};
use wasmount_core::mutex::lock;
use wasmount_core::text::nearest;

/// Form of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Text for people
    Text,
    /// One JSON object on each line
    Json,
}

/// Log levels such as `debug`, which is the host's own, or `info,wasmount_mount=debug,h2=trace`, which names other crates.
#[derive(Debug, Clone)]
pub(crate) struct LogLevels {
    text: String,
    targets: Targets,
}

/// The levels of the running log.
struct CurrentLevels {
    text: Mutex<String>,
    filter: reload::Handle<Targets, Registry>,
}

/// Set when the log starts.
static CURRENT: OnceLock<CurrentLevels> = OnceLock::new();

/// The host's own modules, plugins' messages included: every target of this project starts with it.
const OWN: &str = "wasmount";

/// Highest level of all other crates, unless they are named: at `debug`, a compiler fills a disk.
const OTHERS: LevelFilter = LevelFilter::WARN;

/// Logs each failed attempt of a watch in full; the host logs once that a watch failed, and why.
const WATCHES: &str = "kube_runtime";
/// Logs each failed request as an error; the caller logs what that means.
const REQUESTS: &str = "kube_client";

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

impl FromStr for LogLevels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self {
            targets: targets(text)?,
            text: text.to_owned(),
        })
    }
}

fn targets(text: &str) -> Result<Targets, String> {
    let mut own = LevelFilter::INFO;
    let mut named = Vec::new();
    for level_text in text.split(',').map(str::trim) {
        match level_text.split_once('=') {
            Some((target, level_text)) => {
                named.push((target.trim().to_owned(), level(level_text.trim())?))
            }
            None => own = level(level_text)?,
        }
    }
    let levels = Targets::new()
        .with_default(own.min(OTHERS))
        .with_target(WATCHES, own.min(LevelFilter::ERROR))
        .with_target(REQUESTS, LevelFilter::OFF)
        .with_target(OWN, own);
    Ok(levels.with_targets(named))
}

/// Accepts only the six levels: tracing itself reads a misspelt level as the name of a module, and then logs nothing else.
fn level(level_text: &str) -> Result<LevelFilter, String> {
    let given = level_text.to_lowercase();
    let known = LEVELS.contains(&given.as_str());
    if let Some(level) = given.parse().ok().filter(|_| known) {
        return Ok(level);
    }
    let meant = nearest(&given, LEVELS)
        .map(|level| format!("did you mean `{level}`? "))
        .unwrap_or_default();
    Err(format!(
        "`{level_text}` is no level; {meant}the levels are {}: such as `info` or `info,wasmount_mount=debug`",
        LEVELS.join(", ")
    ))
}

/// What becomes of the spans of the host's work.
#[derive(Clone, Copy)]
pub(crate) enum Spans<'a> {
    /// They are in the log, at its level `debug`.
    Logged,
    /// They are exported, too.
    Exported(&'a Traces),
    /// Those of a request are told to the client that wants them: this is the mounter.
    Told,
}

/// Starts logging until the process ends, and what is to become of spans; a second call changes nothing.
pub(crate) fn start(format: LogFormat, levels: LogLevels, spans: Spans<'_>) {
    let (targets, filter) = reload::Layer::new(levels.targets);
    let registry = tracing_subscriber::registry();
    let started = match spans {
        // A filter of all is asked once a callsite, one of a layer for each line: a guest may write a flood of them.
        Spans::Logged => registry.with(targets).with(lines(format)).try_init(),
        Spans::Exported(traces) => registry
            .with(lines(format).with_filter(targets))
            .with(traces.layer())
            .try_init(),
        Spans::Told => registry
            .with(lines(format).with_filter(targets))
            .with(StepLayer::filtered())
            .try_init(),
    };
    if started.is_ok() {
        std::panic::set_hook(Box::new(log_panic));
        let text = Mutex::new(levels.text);
        CURRENT.get_or_init(|| CurrentLevels { text, filter });
    }
}

fn lines<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    match format {
        LogFormat::Text => tracing_subscriber::fmt::layer()
            .with_writer(io::stderr)
            .with_ansi(io::stderr().is_terminal())
            .fmt_fields(debug_fn(write_field).delimited(" "))
            .boxed(),
        LogFormat::Json => json_lines(io::stderr).boxed(),
    }
}

fn json_lines<S>(
    writer: impl for<'w> MakeWriter<'w> + Send + Sync + 'static,
) -> impl Layer<S> + Send + Sync
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .fmt_fields(JsonFields::new())
        .event_format(JsonLine)
}

/// The levels of the running log; none before it is started.
pub(crate) fn levels() -> Option<String> {
    CURRENT.get().map(|current| lock(&current.text).clone())
}

/// Changes the levels of the running log.
pub(crate) fn set_levels(levels: LogLevels) -> Result<(), String> {
    let current = CURRENT.get().ok_or("the log is not started")?;
    let mut text = lock(&current.text);
    let changed = current.filter.reload(levels.targets);
    changed.map_err(|error| error.to_string())?;
    *text = levels.text;
    Ok(())
}

/// One field of a text line. It may contain paths, ids and plugins' messages, so everything that could end the line, or start another, is escaped.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let text = visible::line(&format!("{value:?}"));
    match field.name() {
        "message" => write!(writer, "{text}"),
        name => write!(writer, "{name}={text}"),
    }
}

/// A panic ends one task, not the process: without this line the log would not say why a call was lost.
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

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn a_bare_level_is_the_hosts_own_and_others_are_heard_by_name() {
        let (ours, theirs) = ("wasmount_mount::pool", "cranelift_codegen");
        for (levels_text, target, level, heard) in [
            ("trace", ours, Level::TRACE, true),
            ("trace", "wasmount::guest", Level::TRACE, true),
            ("trace", theirs, Level::WARN, true),
            ("trace", theirs, Level::INFO, false),
            ("info", ours, Level::DEBUG, false),
            ("error", theirs, Level::WARN, false),
            ("off", ours, Level::ERROR, false),
            ("off", theirs, Level::ERROR, false),
            ("h2=debug", "h2::codec", Level::DEBUG, true),
            ("h2=debug", ours, Level::INFO, true),
            ("wasmount_mount=debug,info", ours, Level::DEBUG, true),
            ("info, wasmount_mount=DEBUG", ours, Level::DEBUG, true),
            (
                "info,wasmount_mount=debug",
                "wasmount_csi",
                Level::DEBUG,
                false,
            ),
        ] {
            let would = targets(levels_text).unwrap().would_enable(target, &level);
            assert_eq!(would, heard, "{levels_text}: {target} {level}");
        }
    }

    #[test]
    fn an_unknown_log_level_is_rejected_with_the_nearest() {
        for (levels_text, part) in [
            ("debgu", "`debgu` is no level; did you mean `debug`?"),
            ("warning", "did you mean `warn`?"),
            ("info,h2=trce", "`trce` is no level; did you mean `trace`?"),
            (
                "verbose",
                "`verbose` is no level; the levels are off, error,",
            ),
            ("wasmount_mount", "`wasmount_mount` is no level;"),
            ("", "`` is no level;"),
            ("3", "`3` is no level;"),
        ] {
            let message = targets(levels_text).unwrap_err();
            assert!(message.contains(part), "{message}");
        }
    }
}
