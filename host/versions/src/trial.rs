//! Decides whether a new version is rolled back: counts its faults within a sliding window, from when it began to serve.
//!
//! Many faults of one volume may be caused by that volume: a pod's request or its content. Once the version has answered the same call about another
//! volume, they count as one fault.
//!
//! A version is on trial until it has served for one whole window and answered a call in it, with fewer faults than the limit. After that its faults
//! are reported and change nothing: a failure after success more likely has another cause.

use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;
use wasmount_core::document::VersionPolicy;
use wasmount_core::driver::VersionFault;

/// One version on trial.
#[derive(Debug, Clone)]
pub(crate) struct Trial {
    /// Number of faults that causes a rollback; 0: none does.
    most: usize,
    window: Duration,
    /// The faults within the window, with what they were about, the oldest first; never more than `most`.
    faults: VecDeque<(Instant, u64)>,
    /// When the current window ends, and is to be checked.
    pub(crate) ends: Instant,
}

/// When a version with a share of the volumes is due to serve all: after so long without a fault.
#[derive(Debug, Clone)]
pub(crate) struct Promotion {
    after: Duration,
    /// When to check.
    pub(crate) at: Instant,
}

impl Promotion {
    pub(crate) fn new(after: Duration, began: Instant) -> Self {
        Self {
            after,
            at: began + after,
        }
    }

    /// A fault, or a failed promotion: the time begins again.
    pub(crate) fn begin_again(&mut self, now: Instant) {
        self.at = now + self.after;
    }

    /// Whether it is due. A version that has answered no call waits for another such time.
    pub(crate) fn is_due(&mut self, now: Instant, answered: u64) -> bool {
        if now < self.at {
            return false;
        }
        self.begin_again(now);
        answered > 0
    }
}

impl Trial {
    pub(crate) fn new(policy: &VersionPolicy, began: Instant) -> Self {
        Self {
            most: usize::try_from(policy.faults).unwrap_or(usize::MAX),
            window: policy.window,
            faults: VecDeque::new(),
            ends: began + policy.window,
        }
    }

    /// Counts a fault. True: the limit is reached.
    pub(crate) fn fault(&mut self, fault: &VersionFault) -> bool {
        let VersionFault { at, subject, .. } = *fault;
        self.forget_before(at);
        if fault.answers_others {
            self.faults.retain(|(_, earlier)| *earlier != subject);
        }
        if self.most == 0 {
            // It still keeps the version from being proven.
            self.faults.clear();
        }
        self.faults.push_back((at, subject));
        self.most > 0 && self.faults.len() >= self.most
    }

    /// The number of faults within the window that ends now.
    pub(crate) fn faults_until(&mut self, now: Instant) -> usize {
        self.forget_before(now);
        self.faults.len()
    }

    /// Checks the window: whether the version is proven. `answered`: all calls that it has answered well.
    pub(crate) fn is_proven(&mut self, now: Instant, answered: u64) -> bool {
        if now < self.ends {
            return false;
        }
        self.ends = now + self.window;
        self.forget_before(now);
        answered > 0 && (self.most > 0 || self.faults.is_empty())
    }

    fn forget_before(&mut self, now: Instant) {
        while let Some((first, _)) = self.faults.front() {
            if now.saturating_duration_since(*first) < self.window {
                return;
            }
            self.faults.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wasmount_core::fault::FaultKind;
    use wasmount_core::rpc::Rpc;

    fn policy(faults: u32, seconds: u64) -> VersionPolicy {
        VersionPolicy {
            faults,
            window: Duration::from_secs(seconds),
            ..VersionPolicy::default()
        }
    }

    fn at(began: Instant, milliseconds: u64) -> Instant {
        began + Duration::from_millis(milliseconds)
    }

    fn fault(began: Instant, milliseconds: u64) -> VersionFault {
        VersionFault {
            at: at(began, milliseconds),
            rpc: Rpc::NodeStageVolume,
            kind: FaultKind::Trapped,
            subject: milliseconds,
            answers_others: false,
        }
    }

    #[test]
    fn faults_within_one_window_end_the_trial() {
        let began = Instant::now();
        let mut trial = Trial::new(&policy(3, 10), began);
        assert!(!trial.fault(&fault(began, 0)));
        assert!(!trial.fault(&fault(began, 5_000)));
        assert!(trial.fault(&fault(began, 9_999)));
    }

    #[test]
    fn faults_of_one_volume_count_once_beside_well_answered_others() {
        let began = Instant::now();
        let of = |moment, subject, answers_others| VersionFault {
            subject,
            answers_others,
            ..fault(began, moment)
        };
        let mut trial = Trial::new(&policy(3, 10), began);
        assert!((0..100).all(|moment| !trial.fault(&of(moment, 1, true))));
        assert!(!trial.fault(&of(100, 2, true)));
        assert!(trial.fault(&of(101, 3, true)), "three volumes");

        // If no other volume was answered, this one is all that there is to judge by.
        let mut trial = Trial::new(&policy(3, 10), began);
        assert!(!trial.fault(&of(0, 1, false)));
        assert!(!trial.fault(&of(1, 1, false)));
        assert!(trial.fault(&of(2, 1, false)));
    }

    #[test]
    fn faults_that_lie_further_apart_do_not() {
        let began = Instant::now();
        let mut trial = Trial::new(&policy(3, 10), began);
        for second in (0..100).step_by(5) {
            assert!(!trial.fault(&fault(began, second * 1000)), "{second}");
        }
    }

    #[test]
    fn where_no_number_is_too_high_nothing_ends_it() {
        let began = Instant::now();
        let mut trial = Trial::new(&policy(0, 10), began);
        assert!((0..1000).all(|n| !trial.fault(&fault(began, n))));
        assert!(!trial.is_proven(at(began, 10_000), 1));
        assert!(trial.is_proven(at(began, 20_000), 1));
    }

    #[test]
    fn a_version_is_proven_by_a_whole_window_in_which_it_answered() {
        let began = Instant::now();
        let mut trial = Trial::new(&policy(3, 10), began);
        assert!(!trial.is_proven(at(began, 9_999), 7));
        assert!(!trial.is_proven(at(began, 10_000), 0));
        assert!(!trial.is_proven(at(began, 19_999), 7));
        assert!(trial.is_proven(at(began, 20_000), 7));
    }

    #[test]
    fn a_promotion_is_due_after_its_time_without_a_fault() {
        let began = Instant::now();
        let mut promotion = Promotion::new(Duration::from_secs(10), began);
        assert!(!promotion.is_due(at(began, 9_999), 7));
        promotion.begin_again(at(began, 5_000));
        assert!(!promotion.is_due(at(began, 14_999), 7));
        assert!(promotion.is_due(at(began, 15_000), 7));
    }

    #[test]
    fn a_version_without_an_answer_is_not_promoted() {
        let began = Instant::now();
        let mut promotion = Promotion::new(Duration::from_secs(10), began);
        assert!(!promotion.is_due(at(began, 10_000), 0));
        assert!(!promotion.is_due(at(began, 19_999), 1));
        assert!(promotion.is_due(at(began, 20_000), 1));
    }

    proptest! {
        /// The trial and a plain count over all faults agree at each fault.
        #[test]
        fn the_window_slides(
            most in 1_u32..6,
            seconds in 1_u64..20,
            mut moments in proptest::collection::vec(0_u64..60_000, 1..60),
        ) {
            moments.sort_unstable();
            let began = Instant::now();
            let mut trial = Trial::new(&policy(most, seconds), began);
            for (index, moment) in moments.iter().enumerate() {
                let within = |earlier: &&u64| moment - **earlier < seconds * 1000;
                let count = moments[..=index].iter().filter(within).count();
                let over = trial.fault(&fault(began, *moment));
                prop_assert_eq!(over, count >= most as usize);
                if over {
                    break;
                }
            }
        }
    }
}
