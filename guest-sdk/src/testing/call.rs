//! The interface `call` in memory: budget, settings and log of the current call.
//!
//! It does not measure time: the budget is what the test set, and less after a pause of [`crate::poll`].

use super::with;
use crate::attributes::Attributes;
use crate::log::Level;
use std::time::Duration;

/// The budget of a call whose document sets none: the host's default.
const DEFAULT_BUDGET: Duration = Duration::from_secs(60);

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Its severity.
    pub level: Level,
    /// Its message.
    pub message: String,
    /// Its fields.
    pub fields: Attributes,
}

pub(super) struct Call {
    pub(super) node_name: Option<String>,
    pub(super) remaining: Duration,
    pub(super) settings: Attributes,
    pub(super) lines: Vec<LogLine>,
}

impl Default for Call {
    fn default() -> Self {
        Self {
            node_name: None,
            remaining: DEFAULT_BUDGET,
            settings: Attributes::new(),
            lines: Vec::new(),
        }
    }
}

pub(crate) fn remaining_ms() -> u64 {
    with(|host| u64::try_from(host.call.remaining.as_millis()).unwrap_or(u64::MAX))
}

/// Takes no time.
pub(crate) fn sleep(pause: Duration) {
    with(|host| host.call.remaining = host.call.remaining.saturating_sub(pause));
}

pub(crate) fn is_cancelled() -> bool {
    with(|host| host.call.remaining.is_zero())
}

pub(crate) fn request_id() -> String {
    "test".to_owned()
}

pub(crate) fn node_name() -> Option<String> {
    with(|host| host.call.node_name.clone())
}

pub(crate) fn settings() -> Attributes {
    with(|host| host.call.settings.clone())
}

pub(crate) fn log(level: Level, message: &str, fields: &[(String, String)]) {
    with(|host| {
        host.call.lines.push(LogLine {
            level,
            message: message.to_owned(),
            fields: fields.to_vec(),
        });
    });
}

#[cfg(test)]
mod tests {
    use crate::{call, log, testing};
    use std::time::Duration;

    #[test]
    fn a_call_has_what_the_test_gave_it() {
        testing::reset();
        assert_eq!(call::remaining(), Duration::from_secs(60));
        assert!(!call::is_cancelled());
        assert_eq!(call::node_name(), None);
        testing::set_setting("pool", "slow");
        testing::set_setting("pool", "fast");
        testing::set_node_name(Some("node-1"));
        testing::set_remaining(Duration::ZERO);
        assert_eq!(call::settings(), [("pool".to_owned(), "fast".to_owned())]);
        assert_eq!(call::node_name().as_deref(), Some("node-1"));
        assert!(call::is_cancelled());
    }

    #[test]
    fn lines_are_kept_by_level() {
        testing::reset();
        log::debug("looked", &[]);
        log::warn("slow", &[("ms", "900")]);
        let lines = testing::logged(log::Level::Info);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0].message, "slow");
        assert_eq!(lines[0].fields, [("ms".to_owned(), "900".to_owned())]);
    }
}
