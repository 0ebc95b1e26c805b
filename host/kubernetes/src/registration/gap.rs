//! How long no host served a driver.

use crate::status::{Gap, GapStart};
use std::time::SystemTime;
use wasmount_core::driver::LastService;

/// How this host began.
#[derive(Debug, Clone, Copy)]
pub struct Beginning {
    /// When its process started.
    pub started: SystemTime,
    /// When another host, for which this one waited, released the data directory; none: there was no other.
    pub succeeded: Option<SystemTime>,
}

/// The start of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Since {
    at: SystemTime,
    from: GapStart,
}

impl Since {
    /// None: no host served the driver before, so there is no gap.
    pub(super) fn of(last: Option<LastService>, beginning: Beginning) -> Option<Self> {
        let (at, from) = match (last?, beginning.succeeded) {
            (LastService::Until(stopped), _) => (stopped, GapStart::Stopped),
            (LastService::Open, Some(let_go)) => (let_go, GapStart::Killed),
            (LastService::Open, None) => (beginning.started, GapStart::Unknown),
        };
        Some(Self { at, from })
    }

    /// If the clock was set back the gap is zero.
    pub(super) fn until(self, now: SystemTime) -> Gap {
        Gap {
            length: now.duration_since(self.at).unwrap_or_default(),
            from: self.from,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_gap_begins_where_the_last_host_is_known_to_have_ended() {
        let stopped = Some(LastService::Until(at(10)));
        let open = Some(LastService::Open);
        for (last, succeeded, length, from) in [
            (stopped, None, 90, GapStart::Stopped),
            (stopped, Some(at(12)), 90, GapStart::Stopped),
            (open, Some(at(12)), 88, GapStart::Killed),
            (open, None, 50, GapStart::Unknown),
        ] {
            let beginning = Beginning {
                started: at(50),
                succeeded,
            };
            let gap = Since::of(last, beginning).unwrap().until(at(100));
            let expected = Gap {
                length: Duration::from_secs(length),
                from,
            };
            assert_eq!(gap, expected);
        }
    }

    #[test]
    fn a_driver_that_nobody_served_has_no_gap() {
        let beginning = Beginning {
            started: at(50),
            succeeded: Some(at(51)),
        };
        assert_eq!(Since::of(None, beginning), None);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_gap() {
        let beginning = Beginning {
            started: at(1),
            succeeded: None,
        };
        let since = Since::of(Some(LastService::Until(at(10))), beginning).unwrap();
        assert_eq!(since.until(at(5)).length, Duration::ZERO);
    }
}
