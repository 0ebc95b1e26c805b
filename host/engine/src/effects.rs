//! The effects of a call that were not undone: a final answer would leave them behind, since no client retries after it.
//!
//! A removal leaves nothing behind, and callers retry deletions after every code. An object that existed already still counts as an effect: an
//! earlier attempt of the same call may have created it.

use crate::requests::Requests;
use std::collections::BTreeSet;
use wasmount_core::call::{Call, EffectMark};
use wasmount_core::code::Code;
use wasmount_core::mounter::MountError;
use wasmount_core::pool::PoolCall;
use wasmount_core::state::{Outcome, StateError};

/// Most places that are tracked, 1 MiB of keys: a call that changes more of them cannot undo all of it.
const PLACES: usize = 1024;

/// A place that a call can change.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// A record of the state, by its key.
    Record(String),
    /// The entry of a pool at a path.
    Entry { pool: String, path: String },
}

/// The changes of one call. However the call ends, it is marked if any of them remains.
#[derive(Debug)]
pub(crate) struct Effects {
    mark: EffectMark,
    left: BTreeSet<Place>,
    requests: Requests,
}

impl Drop for Effects {
    fn drop(&mut self) {
        let is_sent = self.requests.close();
        if is_sent || !self.left.is_empty() {
            self.mark.set();
        }
    }
}

impl Effects {
    /// `requests` are those of the call.
    pub(crate) fn of(call: &Call, requests: Requests) -> Self {
        Self {
            mark: call.effect.clone(),
            left: BTreeSet::new(),
            requests,
        }
    }

    /// A record was to be written.
    pub(crate) fn of_put(&mut self, key: String, outcome: &Result<Outcome, StateError>) {
        match outcome {
            Ok(Outcome::Conflict(_)) => {}
            Err(error) if !may_have_happened(error.code()) => {}
            Ok(Outcome::Done(_)) | Err(_) => self.change(Place::Record(key)),
        }
    }

    /// A record was to be removed.
    pub(crate) fn of_remove(&mut self, key: String, outcome: &Outcome) {
        if let Outcome::Done(_) = outcome {
            self.left.remove(&Place::Record(key));
        }
    }

    /// A pool call with changes was made; it succeeded if there is no error.
    pub(crate) fn of_pool(&mut self, call: PoolCall, error: Option<&MountError>) {
        if error.is_some_and(|error| !may_have_happened(error.code())) {
            return;
        }
        let is_done = error.is_none();
        match call {
            PoolCall::Names
            | PoolCall::Capacity { .. }
            | PoolCall::Stat { .. }
            | PoolCall::List { .. }
            | PoolCall::AllocatedExtents { .. }
            | PoolCall::ChangedExtents { .. }
            | PoolCall::Sync { .. } => {}
            PoolCall::RemoveDirectory { pool, path } | PoolCall::RemoveImage { pool, path } => {
                if is_done {
                    self.remove(&pool, &path);
                }
            }
            PoolCall::Rename {
                pool,
                source,
                target,
            } => {
                if is_done {
                    self.remove(&pool, &source);
                }
                self.change(Place::Entry { pool, path: target });
            }
            PoolCall::CreateDirectory { pool, path }
            | PoolCall::CreateImage { pool, path, .. }
            | PoolCall::ResizeImage { pool, path, .. }
            | PoolCall::SetPermissions { pool, path, .. }
            | PoolCall::SetQuota { pool, path, .. }
            | PoolCall::CloneImage {
                pool, target: path, ..
            }
            | PoolCall::CloneDirectory {
                pool, target: path, ..
            } => self.change(Place::Entry { pool, path }),
            PoolCall::CloneImages { pool, copies } => {
                for (_, path) in copies {
                    let pool = pool.clone();
                    self.change(Place::Entry { pool, path });
                }
            }
        }
    }

    fn change(&mut self, place: Place) {
        if self.left.len() < PLACES {
            self.left.insert(place);
        } else {
            self.mark.set();
        }
    }

    /// Removes a directory with its content.
    fn remove(&mut self, from: &str, removed: &str) {
        self.left.retain(|place| match place {
            Place::Entry { pool, path } if pool == from => {
                let below = path.strip_prefix(removed);
                !below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
            }
            _ => true,
        });
    }
}

/// Whether an operation that failed with this code may have taken effect, in part or later. The other codes are rejections.
fn may_have_happened(code: Code) -> bool {
    code.is_retried() || matches!(code, Code::Internal | Code::Unknown | Code::DataLoss)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use wasmount_core::rpc::Rpc;

    /// Whether any of these changes remains.
    fn leave(change: impl FnOnce(&mut Effects)) -> bool {
        let call = Call::within(Rpc::CreateVolume, "request-1", Duration::ZERO);
        let mut effects = Effects::of(&call, Requests::default());
        change(&mut effects);
        drop(effects);
        call.effect.is_set()
    }

    fn done(effects: &mut Effects, calls: &[PoolCall]) {
        for call in calls {
            effects.of_pool(call.clone(), None);
        }
    }

    fn pool() -> String {
        "volumes".to_owned()
    }

    fn made(path: &str) -> PoolCall {
        let (pool, path) = (pool(), path.to_owned());
        PoolCall::CreateDirectory { pool, path }
    }

    fn removed(path: &str) -> PoolCall {
        let (pool, path) = (pool(), path.to_owned());
        PoolCall::RemoveDirectory { pool, path }
    }

    fn renamed(source: &str, target: &str) -> PoolCall {
        PoolCall::Rename {
            pool: pool(),
            source: source.to_owned(),
            target: target.to_owned(),
        }
    }

    #[test]
    fn what_is_made_and_removed_again_leaves_nothing() {
        for (calls, left) in [
            (&[][..], false),
            (&[made("a")][..], true),
            (&[removed("a")], false),
            (&[made("a"), removed("a")], false),
            (&[made("a"), made("a/b"), removed("a")], false),
            (&[made("a"), made("ab"), removed("a")], true),
            (&[made("a"), renamed("a", "b"), removed("a")], true),
            (&[made("a"), renamed("a", "b"), removed("b")], false),
        ] {
            assert_eq!(leave(|effects| done(effects, calls)), left, "{calls:?}");
        }
        let other = PoolCall::RemoveDirectory {
            pool: "other".to_owned(),
            path: "a".to_owned(),
        };
        assert!(leave(|effects| done(effects, &[made("a"), other])));
    }

    #[test]
    fn a_record_is_left_unless_it_was_refused_or_removed() {
        let key = || "key".to_owned();
        let done = Outcome::Done(1);
        assert!(leave(|it| it.of_put(key(), &Ok(done.clone()))));
        assert!(!leave(|it| {
            it.of_put(key(), &Ok(done.clone()));
            it.of_remove(key(), &done);
        }));
        assert!(leave(|it| {
            it.of_put(key(), &Ok(done.clone()));
            it.of_remove(key(), &Outcome::Conflict(None));
            it.of_remove("other".to_owned(), &done);
        }));
        let refused = [
            Ok(Outcome::Conflict(None)),
            Err(StateError::Full),
            Err(StateError::OverLimit { limit: 1 }),
        ];
        assert!(!leave(|it| {
            refused.iter().for_each(|outcome| it.of_put(key(), outcome));
        }));
    }

    #[test]
    fn an_error_that_is_no_refusal_may_have_left_something() {
        let failed = |error: MountError| {
            leave(|it| {
                it.of_pool(made("a"), Some(&error));
            })
        };
        assert!(failed(MountError::under_way("a copy")));
        assert!(!failed(MountError::not_found("a")));
        // An object whose removal is uncertain still counts.
        assert!(leave(|it| {
            it.of_pool(made("a"), None);
            it.of_pool(removed("a"), Some(&MountError::under_way("a copy")));
        }));
    }

    #[test]
    fn more_changes_than_are_tracked_stay_effects() {
        let paths: Vec<String> = (0..=PLACES).map(|number| number.to_string()).collect();
        assert!(leave(|effects| {
            paths.iter().for_each(|path| done(effects, &[made(path)]));
            paths
                .iter()
                .for_each(|path| done(effects, &[removed(path)]));
        }));
    }
}
