//! When a difference is acted on. kubelet writes Node and CSINode one after the other, removes an entry before it writes it again, and refreshes
//! limits at its own interval; none of that is drift.

use super::drift::{Drift, Remedy, sentence};
use crate::status::ListingStatus;
use std::time::Duration;
use tokio::time::Instant;

/// How long differences may last, and how often they are corrected.
#[derive(Debug, Clone, Copy)]
pub(super) struct DriftPolicy {
    /// Any difference.
    pub(super) settling: Duration,
    /// A difference of a limit only.
    pub(super) counting: Duration,
    /// From the first correction to the second; doubled after each.
    pub(super) first_pause: Duration,
    /// The longest pause. A driver that stayed listed for this long starts with the first pause again.
    pub(super) longest_pause: Duration,
}

/// The state of a driver over time.
#[derive(Debug)]
pub(super) struct DriverState {
    policy: DriftPolicy,
    status: ListingStatus,
    /// Since when there is a difference besides a limit, and since when in a limit.
    since: [Option<Instant>; 2],
    /// A difference that lasted was reported.
    reported: bool,
    listed_since: Option<Instant>,
    pause: Duration,
    next_mending: Option<Instant>,
}

/// The next action.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// What to report.
    pub(super) report: Option<Report>,
    /// The writer must write again.
    pub(super) mend: bool,
    /// When to check again, if nothing changes before.
    pub(super) wake: Option<Instant>,
}

/// A report for people.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// A difference lasts.
    Drifted(String),
    /// The objects match the driver again.
    Listed,
}

impl DriverState {
    pub(super) fn new(policy: DriftPolicy) -> Self {
        Self {
            policy,
            status: ListingStatus::default(),
            since: [None; 2],
            reported: false,
            listed_since: None,
            pause: policy.first_pause,
            next_mending: None,
        }
    }

    /// The status for readiness.
    pub(super) fn status(&self) -> &ListingStatus {
        &self.status
    }

    /// The objects cannot be compared, or written.
    pub(super) fn not_listed(&mut self, reason: String) {
        self.status.listed = false;
        self.status.reason = Some(reason);
    }

    /// Handles the current differences. `registered`: the writer knows the driver, so it should be listed, and can be written again.
    pub(super) fn step(&mut self, now: Instant, drifts: &[Drift], registered: bool) -> Step {
        if drifts.is_empty() {
            return self.listed(now);
        }
        let was_listed = self.listed_since.is_some();
        let expected = was_listed || registered;
        if expected {
            self.count_from(now, drifts);
        } else {
            self.since = [None; 2];
        }
        let due = self.due();
        let lasts = due.is_some_and(|due| due <= now);
        if !lasts && self.status.listed {
            return Step::wait(due);
        }
        let text = sentence(drifts);
        self.status.listed = false;
        self.status.reason = Some(text.clone());
        if !lasts {
            return Step::wait(due);
        }
        let mut report = None;
        if !self.reported {
            self.reported = true;
            self.begin_mending(now);
            self.status.drifts += u64::from(was_listed);
            report = Some(Report::Drifted(text));
        }
        let by_a_person = drifts.iter().any(|it| it.remedy == Remedy::Person);
        let may_mend = registered && !by_a_person;
        let mend = may_mend && self.next_mending.is_none_or(|next| next <= now);
        if mend {
            self.next_mending = Some(now + self.pause);
            self.pause = (self.pause * 2).min(self.policy.longest_pause);
        }
        Step {
            report,
            mend,
            wake: self.next_mending.filter(|_| may_mend),
        }
    }

    fn listed(&mut self, now: Instant) -> Step {
        self.status.listed = true;
        self.status.reason = None;
        self.since = [None; 2];
        if self.reported || self.listed_since.is_none() {
            self.listed_since = Some(now);
        }
        let report = self.reported.then_some(Report::Listed);
        self.reported = false;
        Step {
            report,
            ..Step::default()
        }
    }

    /// A driver that was listed long enough is corrected at once, and then with short pauses again.
    fn begin_mending(&mut self, now: Instant) {
        let listed_for = self.listed_since.map(|since| now.duration_since(since));
        if listed_for.is_none_or(|time| time >= self.policy.longest_pause) {
            self.pause = self.policy.first_pause;
            self.next_mending = None;
        }
    }

    fn count_from(&mut self, now: Instant, drifts: &[Drift]) {
        let of_limit = |drift: &Drift| drift.remedy == Remedy::Refresh;
        let present = [
            drifts.iter().any(|drift| !of_limit(drift)),
            drifts.iter().any(of_limit),
        ];
        for (since, present) in self.since.iter_mut().zip(present) {
            *since = present.then(|| since.unwrap_or(now));
        }
    }

    fn due(&self) -> Option<Instant> {
        let [since, limit_since] = self.since;
        let due = since.map(|since| since + self.policy.settling);
        let limit_due = limit_since.map(|since| since + self.policy.counting);
        due.into_iter().chain(limit_due).min()
    }
}

impl Step {
    fn wait(wake: Option<Instant>) -> Self {
        Self {
            wake,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests;
