//! A driver's status in Kubernetes, for readiness, metrics and the admin socket.

use std::time::{Duration, SystemTime};
use wasmount_core::driver::LastService;

/// The registration of a driver with kubelet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RegistrationStatus {
    /// kubelet has reported the driver as registered, since its socket was last bound.
    pub registered: bool,
    /// How often kubelet registered it.
    pub registrations: u64,
    /// How often kubelet rejected it.
    pub refusals: u64,
    /// How often the socket was bound again: after rejections, after its file was removed, or because of what CSINode lacks.
    pub rebinds: u64,
    /// Why it is not registered; kubelet's message, if it sent one.
    pub reason: Option<String>,
    /// How long the driver was not served before this host's first registration; none: no host served it earlier, or it is not registered yet.
    pub gap: Option<Gap>,
}

/// How long no host served a driver: from the last moment of the previous host to the moment when kubelet registered this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// How long.
    pub length: Duration,
    /// The event from which it was measured.
    pub from: GapStart,
}

/// How the previous host ended, if it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapStart {
    /// It stopped, and recorded when.
    Stopped,
    /// It was killed while this one waited for it: the kernel released the data directory at that moment.
    Killed,
    /// It was killed at an unknown time: the gap is counted from the start of this one, and was longer.
    Unknown,
}

/// How this host began.
#[derive(Debug, Clone, Copy)]
pub struct Beginning {
    /// When its process started.
    pub started: SystemTime,
    /// When another host, for which this one waited, released the data directory; none: there was no other.
    pub succeeded: Option<SystemTime>,
}

/// The start of a gap, and how it is known.
pub(crate) type GapBegin = (SystemTime, GapStart);

/// The state of a driver in Node and CSINode.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListingStatus {
    /// CSINode and Node match the driver.
    pub listed: bool,
    /// How often they stopped matching.
    pub drifts: u64,
    /// Why it is not listed, as a sentence.
    pub reason: Option<String>,
}

impl Gap {
    /// None: no host served the driver before, so there is no gap.
    pub(crate) fn start(last: Option<LastService>, beginning: Beginning) -> Option<GapBegin> {
        Some(match (last?, beginning.succeeded) {
            (LastService::Until(stopped), _) => (stopped, GapStart::Stopped),
            (LastService::Open, Some(let_go)) => (let_go, GapStart::Killed),
            (LastService::Open, None) => (beginning.started, GapStart::Unknown),
        })
    }

    /// If the clock was set back the gap is zero.
    pub(crate) fn until((start, from): GapBegin, now: SystemTime) -> Self {
        let length = now.duration_since(start).unwrap_or_default();
        Self { length, from }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

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
            let gap = Gap::until(Gap::start(last, beginning).unwrap(), at(100));
            let expected = Gap {
                length: Duration::from_secs(length),
                from,
            };
            assert_eq!(gap, expected);
        }
    }

    #[test]
    fn a_driver_that_was_never_served_has_no_gap() {
        let beginning = Beginning {
            started: at(50),
            succeeded: Some(at(51)),
        };
        assert_eq!(Gap::start(None, beginning), None);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_gap() {
        let beginning = Beginning {
            started: at(1),
            succeeded: None,
        };
        let begin = Gap::start(Some(LastService::Until(at(10))), beginning).unwrap();
        assert_eq!(Gap::until(begin, at(5)).length, Duration::ZERO);
    }
}
