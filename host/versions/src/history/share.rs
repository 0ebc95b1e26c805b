//! A share of the volumes for a new version: who has it, and how it ends. The version before stays the current one until the promotion.

use super::{History, NewVersion};
use crate::desired::RollbackRequest;
use crate::refusal::Refusal;
use jiff::Timestamp;
use wasmount_core::status::{Hold, Share, VersionState};

impl History {
    /// The share that a new version has.
    pub(crate) fn share(&self) -> Option<&Share> {
        self.share.as_ref()
    }

    /// Whether this version has a share.
    pub(super) fn is_shared(&self, number: u64) -> bool {
        let share = self.share.as_ref();
        share.is_some_and(|share| share.number == number)
    }

    /// A new version serves a share; it gets the number of this one.
    pub(crate) fn begin_share(&mut self, version: NewVersion, share: Share, now: Timestamp) -> u64 {
        let number = self.next_number;
        self.add(version, now);
        self.share = Some(Share { number, ..share });
        number
    }

    /// The share has another size, and if it is given another time until the promotion.
    pub(crate) fn grow_share(&mut self, percent: u8, promote_after_seconds: Option<u64>) {
        if let Some(share) = &mut self.share {
            share.percent = percent;
            share.promote_after_seconds = promote_after_seconds.or(share.promote_after_seconds);
        }
    }

    /// The version with the share serves everything. `proven`: the version before served well so far.
    pub(crate) fn promote(&mut self, proven: bool, hold: Option<Hold>, now: Timestamp) {
        if let Some(share) = self.share.take() {
            self.replace_current(share.number, proven, now);
            self.current = Some(share.number);
            self.held = hold;
            if let Some(entry) = self.current_mut() {
                entry.record.since = now;
            }
        }
    }

    /// The version with the share serves nothing any more.
    pub(crate) fn end_share(&mut self, reason: String, now: Timestamp) {
        let share = self.share.take();
        if let Some(entry) = share.and_then(|share| self.entry_mut(share.number)) {
            entry.record.end(VersionState::RolledBack, reason, now);
        }
    }

    /// The version that an administrator rolls back to.
    pub(crate) fn requested_target(&self, request: RollbackRequest) -> Result<u64, Refusal> {
        self.check_left(request.from, self.current)?;
        self.target(request.to, false)
    }

    /// Whether a rollback ends the share: one that names no version to go to.
    pub(crate) fn ends_share(&self, request: RollbackRequest) -> Result<bool, Refusal> {
        match &self.share {
            Some(share) if request.to.is_none() => {
                self.check_left(request.from, Some(share.number))?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Whether the version that a rollback leaves is the one that its administrator saw.
    fn check_left(&self, expected: Option<u64>, left: Option<u64>) -> Result<(), Refusal> {
        match expected {
            Some(expected) if left != Some(expected) => Err(Refusal::OtherServes {
                expected,
                serves: left,
            }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desired::{Desired, DesiredFrom};
    use crate::history::desired_digest;
    use crate::history::tests::{at, desired, history_of, new_version};
    use serde_json::json;
    use wasmount_core::status::HeldBy;

    fn document(code: &str) -> Desired {
        desired(json!({ "path": code }), "a")
    }

    fn hold(number: u64) -> Hold {
        Hold {
            number,
            by: HeldBy::Swap,
            reason: "a test".to_owned(),
            since: at(0),
            revision: None,
        }
    }

    /// Two versions, of which the second one serves, and a third one with a share.
    fn shared() -> History {
        let mut history = history_of(2);
        let share = Share {
            number: 0,
            percent: 10,
            since: at(3),
            promote_after_seconds: None,
            pinned: true,
            revision: desired_digest(&document("a.wasm")),
        };
        let number = history.begin_share(new_version("code-3", "a"), share, at(3));
        assert_eq!(number, 3);
        history
    }

    fn state(history: &History, number: u64) -> VersionState {
        history.entry(number).unwrap().record.state
    }

    #[test]
    fn a_version_with_a_share_is_not_the_current_one() {
        let mut history = shared();
        assert_eq!(history.current_number(), 2);
        assert_eq!(history.share().unwrap().number, 3);
        history.grow_share(50, Some(60));
        history.grow_share(60, None);
        let share = history.share().unwrap();
        assert_eq!((share.percent, share.promote_after_seconds), (60, Some(60)));
        let stored = serde_json::to_string(&history).unwrap();
        assert_eq!(serde_json::from_str::<History>(&stored).unwrap(), history);
        assert_eq!(history_of(2).share(), None);
    }

    #[test]
    fn a_promotion_replaces_the_version_that_served_the_rest() {
        let mut history = shared();
        history.promote(true, Some(hold(3)), at(4));
        assert_eq!((history.current_number(), history.share()), (3, None));
        assert_eq!(state(&history, 2), VersionState::Replaced);
        assert_eq!(state(&history, 3), VersionState::Serving);
        assert_eq!(history.current().unwrap().record.since, at(4));
        assert_eq!(history.target(None, true).unwrap(), 2);
        let mut without = history_of(2);
        without.promote(true, None, at(4));
        assert_eq!(without, history_of(2));
    }

    #[test]
    fn a_share_ends_with_every_other_version_that_serves() {
        let mut ended = shared();
        ended.end_share("a test".to_owned(), at(4));
        let mut other = shared();
        assert_eq!(other.admit(new_version("code-4", "a"), true, at(4)), 4);
        let mut back = shared();
        back.roll_back_to(hold(1), String::new(), at(4));
        for (history, current) in [(&ended, 2), (&other, 4), (&back, 1)] {
            assert_eq!((history.current_number(), history.share()), (current, None));
            assert_eq!(state(history, 3), VersionState::RolledBack);
        }
        assert_eq!(other.target(None, false).unwrap(), 2);
    }

    #[test]
    fn a_version_with_a_share_stays_on_disk_beside_the_others() {
        let mut history = shared();
        history.prune(1);
        let records = history.records().into_iter();
        let kept = records.filter(|record| record.is_kept);
        assert_eq!(kept.map(|it| it.number).collect::<Vec<_>>(), [3, 2]);
    }

    #[test]
    fn a_rollback_without_a_target_ends_a_share() {
        let request = |to, from| RollbackRequest { to, from };
        let history = shared();
        assert!(history.ends_share(request(None, None)).unwrap());
        assert!(history.ends_share(request(None, Some(3))).unwrap());
        assert!(history.ends_share(request(None, Some(2))).is_err());
        assert!(!history.ends_share(request(Some(1), None)).unwrap());
        assert!(history.requested_target(request(Some(3), None)).is_err());
        assert!(!history_of(2).ends_share(request(None, None)).unwrap());
    }

    #[test]
    fn a_share_waits_for_no_document_but_a_changed_object() {
        let history = shared();
        assert!(!history.follows(&document("a.wasm")));
        assert!(history.follows(&document("b.wasm")));
        let file = Desired {
            from: DesiredFrom::File("/etc/b.yaml".into()),
            ..document("b.wasm")
        };
        assert!(!history.follows(&file));
    }
}
