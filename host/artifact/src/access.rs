//! How a registry is accessed: credentials, certificates, time limits, retries, and the callback for progress.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;
use zeroize::Zeroizing;

/// How a registry is accessed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Access {
    /// Credentials for the registry; none: anonymous access.
    pub credentials: Option<Login>,
    /// The system's certificates, DER ([`system_certificates`](crate::system_certificates)).
    pub system_ca: Vec<Vec<u8>>,
    /// Certificates, PEM, that are trusted in addition to the system's; each must be a valid certificate.
    pub extra_ca: Option<Vec<u8>>,
    /// Use HTTP without TLS.
    pub plain_http: bool,
    /// Time limits and retries.
    pub limits: TransferLimits,
}

/// A user and a password.
#[derive(Clone, Serialize, Deserialize)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password.
    pub password: Zeroizing<String>,
    /// Where they were found: the entry of a file, for messages.
    pub found: String,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("user", &self.user)
            .field("found", &self.found)
            .finish_non_exhaustive()
    }
}

impl Access {
    /// Which credentials a registry gets, for messages.
    pub(crate) fn credentials_sent(&self) -> String {
        match &self.credentials {
            None => "no credentials were sent".to_owned(),
            Some(Login { user, found, .. }) => {
                format!("credentials of the user `{user}` from {found} were sent")
            }
        }
    }
}

/// Time limits of a registry, and the number of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferLimits {
    /// Limit for establishing a connection.
    pub connect: Duration,
    /// Limit until a request is answered, and between two pieces of a response.
    pub silence: Duration,
    /// Limit for all requests to one registry.
    pub total: Duration,
    /// Attempts at one request, the first one included.
    pub attempts: u32,
    /// Pause before the second attempt; doubled after each attempt.
    pub first_pause: Duration,
}

/// The longest pause that a registry may request. A longer one ends the attempts, so that the administrator sees the error.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

impl Default for TransferLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            silence: Duration::from_secs(30),
            // Ten minutes: the largest component at 1 Mbit/s.
            total: Duration::from_secs(600),
            // Pauses of 1/2, 1, 2 and 4 s: a registry that restarts is back by then.
            attempts: 5,
            first_pause: Duration::from_millis(500),
        }
    }
}

impl TransferLimits {
    /// The pause before the next attempt, if another attempt is allowed. `made` counts attempts, `after` is the shortest pause, `left` is what remains
    /// of the total.
    pub(crate) fn pause(&self, made: u32, after: Duration, left: Duration) -> Option<Duration> {
        let doubled = made.saturating_sub(1).min(u32::BITS - 1);
        let own = self.first_pause.saturating_mul(1 << doubled);
        let pause = own.min(LONGEST_PAUSE).max(after);
        (made < self.attempts && pause <= LONGEST_PAUSE && pause < left).then_some(pause)
    }
}

/// A step of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A transfer of this many bytes begins, or begins anew.
    Begins(u64),
    /// This many more bytes were transferred.
    Moved(u64),
}

/// Is called for each step; it must not block.
pub type Progress = dyn Fn(Step) + Send + Sync;

/// Ignores progress.
pub fn silent(_: Step) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_in_no_text() {
        let login = Login {
            user: "ann".to_owned(),
            password: Zeroizing::new("hunter2".to_owned()),
            found: "config.json".to_owned(),
        };
        let access = Access {
            credentials: Some(login),
            ..Access::default()
        };
        for text in [format!("{access:?}"), access.credentials_sent()] {
            assert!(text.contains("ann") && !text.contains("hunter2"), "{text}");
        }
    }

    const LONG: Duration = Duration::from_secs(3600);

    fn pauses(after: Duration) -> Vec<u64> {
        let limits = TransferLimits::default();
        (1..)
            .map_while(|made| limits.pause(made, after, LONG))
            .map(|pause| u64::try_from(pause.as_millis()).unwrap())
            .collect()
    }

    #[test]
    fn transient_failures_are_retried_with_growing_pauses() {
        assert_eq!(pauses(Duration::ZERO), [500, 1000, 2000, 4000]);
        let after = Duration::from_secs(3);
        assert_eq!(pauses(after), [3000, 3000, 3000, 4000]);
    }

    #[test]
    fn pauses_have_an_upper_bound() {
        assert_eq!(pauses(LONG), [0; 0]);
        let limits = TransferLimits::default();
        let left = Duration::from_millis(500);
        assert_eq!(limits.pause(1, Duration::ZERO, left), None);
        let many = TransferLimits {
            attempts: u32::MAX,
            ..limits
        };
        assert_eq!(
            many.pause(4_000_000, Duration::ZERO, LONG),
            Some(LONGEST_PAUSE)
        );
    }
}
