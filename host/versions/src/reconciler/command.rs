//! What is asked of a reconciler.

use super::SwapRequest;
use crate::desired::{Desired, RollbackRequest};
use crate::refusal::Refusal;
use crate::status::Outcome;
use tokio::sync::oneshot;

/// Where an answer goes.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Refusal>>;

/// Something that is answered.
pub(super) enum Command {
    Swap(Box<SwapRequest>, Reply<Outcome>),
    Rollback(RollbackRequest, Reply<Outcome>),
    Pause(bool, Reply<()>),
    /// None: work is taken again.
    Drain(Option<String>, Reply<()>),
    TakeOver(Box<dyn Fn() -> bool + Send + Sync>, Reply<()>),
    Stop,
}

/// What is wanted, and whether it may have changed since the actor looked.
pub(super) struct Wanted {
    desired: Desired,
    number: u64,
    /// What it points to may have changed.
    looks: bool,
    /// It did itself.
    changed: bool,
}

/// What the actor takes from there.
pub(super) struct DesiredRevision {
    pub(super) desired: Desired,
    pub(super) number: u64,
    pub(super) changed: bool,
}

impl Wanted {
    pub(super) fn first(desired: Desired) -> Self {
        Self {
            desired,
            number: 1,
            looks: false,
            changed: true,
        }
    }

    pub(super) fn current(&self) -> Desired {
        self.desired.clone()
    }

    /// The same again is a reason to look again, no other wish.
    pub(super) fn set_desired(&mut self, desired: Desired) -> u64 {
        if self.desired == desired {
            self.looks = true;
        } else {
            self.desired = desired;
            self.changed = true;
        }
        self.number += 1;
        self.number
    }

    /// Of the last wish.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn look_again(&mut self) {
        self.looks = true;
    }

    /// What is new since the last time; none: nothing.
    pub(super) fn take(&mut self) -> Option<DesiredRevision> {
        let changed = std::mem::take(&mut self.changed);
        let looks = std::mem::take(&mut self.looks);
        (changed || looks).then(|| DesiredRevision {
            desired: self.desired.clone(),
            number: self.number,
            changed,
        })
    }
}
