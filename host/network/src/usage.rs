//! What the requests of one grant did, for metrics.

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
