//! What the requests of one grant did, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters of one grant since its connections were opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Requests that were answered with a status under 400.
    pub succeeded: u64,
    /// Requests that were answered with a status of the class 4xx.
    pub rejected: u64,
    /// Requests that were answered with a status of the class 5xx.
    pub failed: u64,
    /// Requests that were not sent.
    pub unsent: u64,
    /// Requests that were sent and have no answer.
    pub lost: u64,
    /// Repeated attempts.
    pub retries: u64,
    /// Logins that yielded a session.
    pub logins: u64,
    /// Logins that failed.
    pub failed_logins: u64,
    /// Requests under way.
    pub in_flight: u64,
    /// Time of all requests.
    pub time: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) succeeded: Counter,
    pub(crate) rejected: Counter,
    pub(crate) failed: Counter,
    pub(crate) unsent: Counter,
    pub(crate) lost: Counter,
    pub(crate) retries: Counter,
    pub(crate) logins: Counter,
    pub(crate) failed_logins: Counter,
    microseconds: Counter,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn increase(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(crate) fn add_time(&self, time: Duration) {
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.microseconds
            .0
            .fetch_add(microseconds, Ordering::Relaxed);
    }

    pub(crate) fn usage(&self, in_flight: usize) -> Usage {
        Usage {
            succeeded: self.succeeded.value(),
            rejected: self.rejected.value(),
            failed: self.failed.value(),
            unsent: self.unsent.value(),
            lost: self.lost.value(),
            retries: self.retries.value(),
            logins: self.logins.value(),
            failed_logins: self.failed_logins.value(),
            in_flight: u64::try_from(in_flight).unwrap_or(u64::MAX),
            time: Duration::from_micros(self.microseconds.value()),
        }
    }
}
