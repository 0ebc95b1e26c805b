//! How many files and connections this process may have open, and the share of each driver. A client that opens connections to one driver must
//! not take the descriptors that another driver's call needs.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A limit below this is logged: a connection is one descriptor, a volume in use a few, and most systems allow many times as many.
const ENOUGH: u64 = 8192;

/// All connections together get one part of so many of the descriptors; the rest is for work.
const PARTS: u64 = 2;

/// Connections of one driver if descriptors are plentiful: kubelet opens one for every call and calls for a hundred pods at a time, a sidecar
/// keeps one or two. Forty times that is a fault of the client.
const MOST_CONNECTIONS: u64 = 4096;

/// Connections of one driver if descriptors are scarce: kubelet and five sidecars can still call at the same time.
const LEAST_CONNECTIONS: u64 = 16;

/// Raises the soft limit to the hard one, as any user may; returns the limit in force. 1024 is the usual soft limit only because of `select(2)`.
pub(super) fn raise() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    let limit = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, "the limit of open files could not be raised");
            current
        }
    };
    // None means that there is no limit.
    let limit = limit.unwrap_or(u64::MAX);
    if limit < ENOUGH {
        tracing::warn!(
            limit,
            enough = ENOUGH,
            "this process may have few files open: raise its hard limit (`ulimit -Hn`, LimitNOFILE= of systemd)"
        );
    }
    limit
}

/// How many connections each of `drivers` may have at a time.
pub(super) fn connections_of_each(limit: u64, drivers: usize) -> usize {
    let each = limit / PARTS / (drivers.max(1) as u64);
    let each = each.clamp(LEAST_CONNECTIONS, MOST_CONNECTIONS);
    usize::try_from(each).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_drivers_together_leave_half_of_the_descriptors_for_work() {
        for (limit, drivers, each) in [
            (1024, 1, 512),
            (1024, 5, 102),
            (8192, 2, 2048),
            (1 << 20, 1, 4096),
            (u64::MAX, 100, 4096),
            (1024, 0, 512),
        ] {
            assert_eq!(connections_of_each(limit, drivers), each);
        }
    }

    #[test]
    fn a_driver_is_never_left_without_connections() {
        assert_eq!(connections_of_each(64, 50), 16);
    }
}
