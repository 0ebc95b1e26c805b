//! How often a host sends requests, depending on the number of hosts: the total load on the API server stays constant.

use std::time::Duration;
use tokio::sync::watch;

/// Share of each host. 10 ms: a hundred requests a second of all hosts together, a twentieth of what an API server with default limits accepts
/// (`--max-requests-inflight`, 400 at a time).
const SHARE: Duration = Duration::from_millis(10);
/// Shortest pause. 1 s: to a person who watches, that is immediate.
const LEAST: Duration = Duration::from_secs(1);
/// Longest pause: 2 min. Above 12,000 hosts the total load increases; Kubernetes supports 5,000 nodes.
const MOST: Duration = Duration::from_secs(120);

/// The number of hosts, which changes; 0 while it is not known.
#[derive(Debug, Clone)]
pub struct RateLimit(pub(super) watch::Receiver<u64>);

impl RateLimit {
    /// Between two requests of the same kind.
    pub(super) fn pause(&self) -> Duration {
        pause(*self.0.borrow())
    }

    /// Before a request is repeated that failed, or changed nothing, so often in a row: an API server that does not keep up must not get the same
    /// requests again at once.
    pub(super) fn backoff(&self, failures: u32) -> Duration {
        let longest = LEAST.saturating_mul(1_u32.checked_shl(failures).unwrap_or(u32::MAX));
        self.pause() + longest.min(MOST).mul_f64(fastrand::f64())
    }

    /// A random part of that pause, so that hosts that are notified at the same time do not send requests at the same time.
    pub(super) fn some(&self) -> Duration {
        self.pause().mul_f64(fastrand::f64())
    }
}

fn pause(hosts: u64) -> Duration {
    let hosts = u32::try_from(hosts).unwrap_or(u32::MAX);
    SHARE.saturating_mul(hosts).clamp(LEAST, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_hosts_together_ask_no_more_than_a_hundred_times_a_second() {
        for hosts in [100_u32, 1000, 5000, 12_000] {
            let each = pause(u64::from(hosts)).as_secs_f64();
            assert!(f64::from(hosts) / each <= 100.01, "{hosts}: {each}");
        }
        assert_eq!(pause(0), LEAST);
        assert_eq!(pause(3), LEAST);
        assert_eq!(pause(u64::MAX), MOST);
    }

    #[test]
    fn a_repeat_waits_longer_after_each_failure_and_not_for_ever() {
        let (_hosts, number) = watch::channel(1000);
        let limit = RateLimit(number);
        let own = pause(1000);
        for (failures, longest) in [(0, LEAST), (3, 8 * LEAST), (7, MOST), (u32::MAX, MOST)] {
            let backoff = limit.backoff(failures);
            assert!(
                (own..=own + longest).contains(&backoff),
                "{failures}: {backoff:?}"
            );
        }
    }

    #[test]
    fn a_part_of_a_pause_is_not_longer_and_not_always_the_same() {
        let (_hosts, number) = watch::channel(1000);
        let limit = RateLimit(number);
        let parts: Vec<_> = (0..10).map(|_| limit.some()).collect();
        assert!(parts.iter().all(|part| *part <= pause(1000)), "{parts:?}");
        assert!(parts.iter().any(|part| *part != parts[0]), "{parts:?}");
    }
}
