//! The rules of a lease: which host may take it, how long it is held, and what is written.
//!
//! Times of other hosts are never compared with ours: a lease is free when it has not changed for its own duration, by our clock.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use std::time::Duration;
use tokio::time::Instant;

/// How long a lease belongs to a holder that does not renew it. 15 s, the default of the sidecars (csi-lib-utils, leaderelection).
const DURATION_SECONDS: i32 = 15;

/// How long a holder continues without a renewal. 10 s, as the sidecars: the rest of [`DURATION_SECONDS`] is for calls to end.
pub(super) const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// Between two reads. 2 s, the default of client-go: several attempts fit into [`RENEW_DEADLINE`].
pub(super) const RETRY: Duration = Duration::from_secs(2);

/// The duration in a released lease: client-go's value for "at once".
const RELEASED_SECONDS: i32 = 1;

/// The lease of another holder, as it was last observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Observed {
    version: Option<String>,
    since: Instant,
}

/// The other host that holds an existing lease; none: it has no holder, its holder is gone, or this host holds it. `observed` is the result of the last
/// read, and is updated.
pub(super) fn other_holder(
    lease: &Lease,
    me: &str,
    now: Instant,
    observed: &mut Option<Observed>,
) -> Option<String> {
    let version = lease.metadata.resource_version.clone();
    let since = match observed {
        Some(before) if before.version == version => before.since,
        _ => now,
    };
    *observed = Some(Observed { version, since });
    let spec = lease.spec.clone().unwrap_or_default();
    let holder = spec.holder_identity.unwrap_or_default();
    let seconds = spec.lease_duration_seconds.unwrap_or_default();
    let duration = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
    let is_free = holder.is_empty() || holder == me || now >= since + duration;
    (!is_free).then_some(holder)
}

/// The lease with this host as its holder, based on the existing one. Its resource version is kept: the first writer wins.
pub(super) fn taken(name: &str, before: Option<Lease>, me: &str, at: Timestamp) -> Lease {
    let mut lease = before.unwrap_or_default();
    lease.metadata.name = Some(name.to_owned());
    let spec = lease.spec.get_or_insert_default();
    if spec.holder_identity.as_deref() != Some(me) {
        // The first holder does not count as a transition.
        let transitions = match (&spec.holder_identity, spec.lease_transitions) {
            (None, _) => 0,
            (Some(_), before) => before.unwrap_or_default().saturating_add(1),
        };
        spec.lease_transitions = Some(transitions);
        spec.acquire_time = Some(MicroTime(at));
        spec.holder_identity = Some(me.to_owned());
    }
    renew(spec, at, DURATION_SECONDS);
    lease
}

/// The released lease, if this host still holds it.
pub(super) fn released(mut lease: Lease, me: &str, at: Timestamp) -> Option<Lease> {
    let spec = lease.spec.as_mut()?;
    if spec.holder_identity.as_deref() != Some(me) {
        return None;
    }
    spec.holder_identity = Some(String::new());
    renew(spec, at, RELEASED_SECONDS);
    Some(lease)
}

fn renew(spec: &mut LeaseSpec, at: Timestamp, seconds: i32) {
    spec.renew_time = Some(MicroTime(at));
    spec.lease_duration_seconds = Some(seconds);
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::api::ObjectMeta;

    const EARLIER: Timestamp = Timestamp::UNIX_EPOCH;

    fn held(by: Option<&str>, version: &str) -> Lease {
        Lease {
            metadata: ObjectMeta {
                resource_version: Some(version.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: by.map(str::to_owned),
                lease_duration_seconds: Some(15),
                lease_transitions: Some(3),
                acquire_time: Some(MicroTime(EARLIER)),
                renew_time: Some(MicroTime(EARLIER)),
                ..LeaseSpec::default()
            }),
        }
    }

    fn held_by_other() -> Option<String> {
        Some("other".to_owned())
    }

    #[test]
    fn a_lease_without_holder_or_our_own_is_free() {
        for holder in [None, Some(""), Some("me")] {
            let other = other_holder(&held(holder, "1"), "me", Instant::now(), &mut None);
            assert_eq!(other, None, "{holder:?}");
        }
    }

    #[test]
    fn a_lease_is_free_once_unchanged_for_its_duration() {
        let (start, mut observed) = (Instant::now(), None);
        let mut at = |seconds: u64, version: &str| {
            let now = start + Duration::from_secs(seconds);
            other_holder(&held(Some("other"), version), "me", now, &mut observed)
        };
        // Whatever time it contains, it is held when it is first seen.
        assert_eq!(at(0, "1"), held_by_other());
        assert_eq!(at(14, "1"), held_by_other());
        assert_eq!(at(16, "2"), held_by_other(), "it was renewed");
        assert_eq!(at(30, "2"), held_by_other());
        assert_eq!(at(31, "2"), None);
    }

    #[test]
    fn taking_says_who_and_since_when_and_counts() {
        let now = Timestamp::from_second(7).unwrap();
        let spec = |lease: Lease| lease.spec.unwrap();
        let new = taken("l", None, "me", now);
        assert_eq!(new.metadata.name.as_deref(), Some("l"));
        let new = spec(new);
        assert_eq!(
            (new.lease_transitions, new.lease_duration_seconds),
            (Some(0), Some(15))
        );
        let over = taken("l", Some(held(Some("other"), "9")), "me", now);
        assert_eq!(over.metadata.resource_version.as_deref(), Some("9"));
        let over = spec(over);
        assert_eq!(over.holder_identity.as_deref(), Some("me"));
        assert_eq!(over.lease_transitions, Some(4));
        assert_eq!(over.acquire_time, Some(MicroTime(now)));
        let renewed = spec(taken("l", Some(held(Some("me"), "9")), "me", now));
        assert_eq!(renewed.lease_transitions, Some(3));
        assert_eq!(renewed.acquire_time, Some(MicroTime(EARLIER)));
        assert_eq!(renewed.renew_time, Some(MicroTime(now)));
    }

    #[test]
    fn giving_back_frees_our_own_lease_and_no_others() {
        let now = Timestamp::from_second(7).unwrap();
        let free = released(held(Some("me"), "9"), "me", now).unwrap();
        let holder = other_holder(&free, "other", Instant::now(), &mut None);
        assert_eq!(holder, None);
        assert_eq!(released(held(Some("other"), "9"), "me", now), None);
    }

    #[test]
    fn a_holder_gives_up_before_another_may_take_the_lease() {
        let duration = Duration::from_secs(DURATION_SECONDS.unsigned_abs().into());
        assert!(RENEW_DEADLINE + RETRY < duration);
    }
}
