//! Times are passed in, so waiting is tested to the second.

use super::*;

const SETTLING: u64 = 5;
const COUNTING: u64 = 20;

/// The state of a driver, with a clock.
struct Clock {
    start: Instant,
    state: DriverState,
}

impl Clock {
    fn new() -> Self {
        Self {
            start: Instant::now(),
            state: DriverState::new(DriftPolicy {
                settling: Duration::from_secs(SETTLING),
                counting: Duration::from_secs(COUNTING),
                first_pause: Duration::from_secs(10),
                longest_pause: Duration::from_secs(40),
            }),
        }
    }

    fn listed_since_zero() -> Self {
        let mut clock = Self::new();
        assert_eq!(clock.at(0, &[], true).report, None);
        assert!(clock.state.status().listed);
        clock
    }

    fn at(&mut self, seconds: u64, drifts: &[Drift], registered: bool) -> Step {
        let now = self.start + Duration::from_secs(seconds);
        self.state.step(now, drifts, registered)
    }

    fn after(&self, seconds: u64) -> Option<Instant> {
        Some(self.start + Duration::from_secs(seconds))
    }
}

fn no_entry() -> Drift {
    Drift::new(Remedy::Rewrite, "CSINode does not list the driver")
}

fn count() -> Drift {
    Drift::new(Remedy::Refresh, "another count")
}

fn label() -> Drift {
    Drift::new(Remedy::Person, "another label")
}

fn reports_drift(step: &Step) -> bool {
    matches!(step.report, Some(Report::Drifted(_)))
}

#[test]
fn drift_that_ends_in_time_is_not_reported() {
    let mut clock = Clock::listed_since_zero();
    let step = clock.at(100, &[no_entry()], true);
    assert_eq!(step, Step::wait(clock.after(105)));
    assert!(clock.state.status().listed);
    let step = clock.at(104, &[no_entry()], false);
    assert_eq!(step, Step::wait(clock.after(105)));
    let step = clock.at(104, &[], true);
    assert_eq!((step.report, step.mend), (None, false));
    assert_eq!(clock.state.status().drifts, 0);
}

#[test]
fn lasting_drift_is_reported_once_and_corrected_with_back_off() {
    let mut clock = Clock::listed_since_zero();
    clock.at(100, &[no_entry()], true);
    let step = clock.at(105, &[no_entry()], true);
    assert!(reports_drift(&step) && step.mend);
    assert_eq!(step.wake, clock.after(115));
    for (seconds, mend, next) in [
        (106, false, 115),
        (115, true, 135),
        (134, false, 135),
        (135, true, 175),
        (175, true, 215),
    ] {
        let step = clock.at(seconds, &[no_entry()], true);
        assert_eq!((step.mend, &step.report), (mend, &None), "{seconds}");
        assert_eq!(step.wake, clock.after(next), "{seconds}");
    }
    let status = clock.state.status();
    assert_eq!((status.listed, status.drifts), (false, 1));
    assert_eq!(
        status.reason.as_deref(),
        Some("CSINode does not list the driver")
    );
    assert_eq!(clock.at(216, &[], true).report, Some(Report::Listed));
    assert!(clock.state.status().listed);
}

#[test]
fn drift_of_a_listed_driver_is_healed_at_once_else_later() {
    let mut clock = Clock::listed_since_zero();
    clock.at(100, &[no_entry()], true);
    assert!(clock.at(105, &[no_entry()], true).mend);
    clock.at(106, &[], true);
    // Another writer removes the entry again and again.
    clock.at(107, &[no_entry()], true);
    let step = clock.at(112, &[no_entry()], true);
    assert!(reports_drift(&step) && !step.mend);
    assert_eq!(step.wake, clock.after(115));
    assert!(clock.at(115, &[no_entry()], true).mend);
    clock.at(116, &[], true);
    clock.at(156, &[no_entry()], true);
    let step = clock.at(161, &[no_entry()], true);
    assert!(step.mend);
    assert_eq!(step.wake, clock.after(171));
}

#[test]
fn a_limit_alone_may_be_behind_for_longer() {
    let mut clock = Clock::listed_since_zero();
    clock.at(100, &[count()], true);
    let step = clock.at(119, &[count()], true);
    assert_eq!(step, Step::wait(clock.after(120)));
    assert!(clock.state.status().listed);
    assert!(clock.at(120, &[count()], true).mend);
}

#[test]
fn a_limit_that_is_behind_makes_nothing_else_wait() {
    let mut clock = Clock::listed_since_zero();
    clock.at(100, &[count()], true);
    let step = clock.at(103, &[count(), no_entry()], true);
    assert_eq!(step, Step::wait(clock.after(108)));
    assert!(clock.at(108, &[count(), no_entry()], true).mend);
}

#[test]
fn a_permanent_drift_is_reported_and_not_retried() {
    let mut clock = Clock::listed_since_zero();
    clock.at(100, &[label(), no_entry()], true);
    let step = clock.at(105, &[label(), no_entry()], true);
    assert!(reports_drift(&step) && !step.mend);
    assert_eq!(step.wake, None);
    // The person has corrected it.
    let step = clock.at(200, &[no_entry()], true);
    assert!(step.mend && step.report.is_none());
}

#[test]
fn who_is_not_registered_yet_is_unready_but_has_not_drifted() {
    let mut clock = Clock::new();
    for seconds in [0, 60] {
        let step = clock.at(seconds, &[no_entry()], false);
        assert_eq!(step, Step::wait(None));
    }
    let status = clock.state.status();
    assert_eq!((status.listed, status.drifts), (false, 0));
    // kubelet reports the driver as registered, and CSINode has no entry.
    let step = clock.at(61, &[no_entry()], true);
    assert_eq!(step, Step::wait(clock.after(66)));
    let step = clock.at(66, &[no_entry()], true);
    assert!(reports_drift(&step) && step.mend);
}

#[test]
fn who_cannot_register_again_only_tells() {
    let mut clock = Clock::listed_since_zero();
    clock.at(100, &[no_entry()], false);
    let step = clock.at(105, &[no_entry()], false);
    assert!(reports_drift(&step) && !step.mend);
    assert_eq!(clock.state.status().drifts, 1);
}
