//! The interface `state` in memory, with revisions and conflicts.
//!
//! It has the host's limits and its order of keys, but no durability.

use super::{Host, attempt};
use crate::error::Error;
use crate::state::{Entry, Expect, Outcome, Revision};
use std::collections::BTreeMap;

/// Longest key, in bytes, as on the host.
const KEY_BYTES: usize = 1024;
/// Largest value, in bytes, as on the host.
const VALUE_BYTES: usize = 1 << 20;
/// Most entries of one scan, as on the host.
const SCAN_ENTRIES: u32 = 1000;

#[derive(Default)]
pub(super) struct State {
    pub(super) records: BTreeMap<String, (Vec<u8>, Revision)>,
    last_revision: Revision,
}

impl State {
    fn entry(&self, key: &str) -> Option<Entry> {
        let (value, revision) = self.records.get(key)?;
        Some(Entry {
            key: key.to_owned(),
            value: value.clone(),
            revision: *revision,
        })
    }

    fn is_expected(&self, key: &str, expect: Expect) -> bool {
        let revision = self.records.get(key).map(|(_, revision)| *revision);
        match expect {
            Expect::Any => true,
            Expect::Absent => revision.is_none(),
            Expect::Revision(expected) => revision == Some(expected),
        }
    }
}

pub(crate) fn get(key: &str) -> Result<Option<Entry>, Error> {
    at_key(key, |state| Ok(state.entry(key)))
}

pub(crate) fn put(key: &str, value: &[u8], expect: Expect) -> Result<Outcome, Error> {
    at_key(key, |state| {
        if value.len() > VALUE_BYTES {
            return Err(Error::invalid_argument(format!(
                "the value is {} bytes long, at most {VALUE_BYTES} are allowed",
                value.len()
            )));
        }
        if !state.is_expected(key, expect) {
            return Ok(Outcome::Conflict(state.entry(key)));
        }
        state.last_revision += 1;
        state
            .records
            .insert(key.to_owned(), (value.to_vec(), state.last_revision));
        Ok(Outcome::Done(state.last_revision))
    })
}

pub(crate) fn remove(key: &str, expect: Expect) -> Result<Outcome, Error> {
    at_key(key, |state| {
        if !state.is_expected(key, expect) {
            return Ok(Outcome::Conflict(state.entry(key)));
        }
        let last = state.records.remove(key).map(|(_, revision)| revision);
        Ok(Outcome::Done(last.unwrap_or(0)))
    })
}

pub(crate) fn scan(prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<Entry>, Error> {
    open(prefix, |state| {
        let limit = usize::try_from(limit.min(SCAN_ENTRIES)).unwrap_or(usize::MAX);
        Ok(state
            .records
            .keys()
            .filter(|key| key.starts_with(prefix) && after.is_none_or(|after| key.as_str() > after))
            .take(limit)
            .filter_map(|key| state.entry(key))
            .collect())
    })
}

/// The store, for a call with one key.
fn at_key<R>(key: &str, call: impl FnOnce(&mut State) -> Result<R, Error>) -> Result<R, Error> {
    open(key, |state| {
        if key.is_empty() || key.contains('\0') {
            return Err(Error::invalid_argument(
                "the key is empty or contains a NUL byte",
            ));
        }
        call(state)
    })
}

/// The store, unless a node call runs or the key, or prefix, is too long.
fn open<R>(key: &str, call: impl FnOnce(&mut State) -> Result<R, Error>) -> Result<R, Error> {
    attempt(|host: &mut Host| {
        if host.recording.is_some() {
            return Err(Error::failed_precondition(
                "`state` belongs to the controller service: pass what the node must know in the volume context",
            ));
        }
        if key.len() > KEY_BYTES {
            return Err(Error::invalid_argument(format!(
                "the key is {} bytes long, at most {KEY_BYTES} are allowed",
                key.len()
            )));
        }
        call(&mut host.state)
    })
}

#[cfg(test)]
mod tests {
    use crate::error::{Code, Error};
    use crate::state::{self, Expect, Outcome, Record};
    use crate::testing;

    #[test]
    fn a_record_is_created_read_updated_and_deleted() {
        testing::reset();
        let first = state::create("a", &7_u64).unwrap();
        assert_eq!(state::create("a", &7_u64), Ok(first));
        let record = Record {
            value: 7_u64,
            revision: first,
        };
        assert_eq!(state::get("a"), Ok(Some(record)));
        let second = state::update("a", &8_u64, first).unwrap();
        assert!(second > first);
        assert_eq!(state::require::<String>("a").unwrap().value, "8");
        state::delete("a").unwrap();
        state::delete("a").unwrap();
        assert_eq!(state::get::<u64>("a"), Ok(None));
    }

    #[test]
    fn a_write_over_something_else_is_refused() {
        testing::reset();
        let first = state::create("a", &7_u64).unwrap();
        let aborted = Err(Code::Aborted);
        assert_eq!(
            state::create("a", &9_u64).map_err(|error| error.code),
            aborted
        );
        assert_eq!(
            state::update("a", &9_u64, first + 1).map_err(|error| error.code),
            aborted
        );
        let Ok(Outcome::Conflict(Some(stored))) = state::put("a", &9_u64, Expect::Absent) else {
            panic!("a conflict tells what is stored");
        };
        assert_eq!((stored.value, stored.revision), (b"7".to_vec(), first));
        assert_eq!(
            state::remove("a", Expect::Absent)
                .map(|outcome| matches!(outcome, Outcome::Conflict(_))),
            Ok(true)
        );
    }

    #[test]
    fn a_change_is_decided_again_after_a_conflict() {
        testing::reset();
        state::create("a", &1_u64).unwrap();
        let mut seen = Vec::new();
        let changed = state::change("a", |value: &mut Option<u64>| {
            let there = value.unwrap_or(0);
            seen.push(there);
            if seen.len() == 1 {
                // Another call writes at the worst moment.
                state::put("a", &10_u64, Expect::Any)?;
            }
            *value = Some(there + 1);
            Ok(there)
        });
        assert_eq!((changed, seen), (Ok(10), vec![1, 10]));
        assert_eq!(state::require("a").map(|it| it.value), Ok(11_u64));
    }

    #[test]
    fn a_change_makes_removes_or_leaves_a_record() {
        testing::reset();
        let put = |new: Option<u64>| {
            state::change("a", |value| {
                *value = new;
                Ok(())
            })
        };
        put(Some(1)).unwrap();
        let made = state::require::<u64>("a").unwrap();
        state::change("a", |_: &mut Option<u64>| Ok(())).unwrap();
        assert_eq!(state::require("a"), Ok(made));
        let refused: Result<(), _> = state::change("a", |value| {
            *value = Some(2_u64);
            Err(Error::out_of_range("no"))
        });
        assert_eq!(refused.map_err(|error| error.code), Err(Code::OutOfRange));
        put(None).unwrap();
        assert!(testing::state_keys().is_empty());
    }

    #[test]
    fn a_change_that_never_succeeds_ends_with_the_call() {
        testing::reset();
        testing::set_remaining(std::time::Duration::ZERO);
        let answer = state::change("a", |value: &mut Option<u64>| {
            state::put("a", &value.unwrap_or(0), Expect::Any)?;
            *value = Some(9);
            Ok(())
        });
        assert_eq!(answer.map_err(|error| error.code), Err(Code::Aborted));
    }

    #[test]
    fn missing_and_unreadable_records_are_distinguished() {
        testing::reset();
        state::create("a", &"seven".to_owned()).unwrap();
        let code = |key| state::require::<u64>(key).map_err(|error| error.code);
        assert_eq!(code("a"), Err(Code::DataLoss));
        assert_eq!(code("b"), Err(Code::NotFound));
    }

    #[test]
    fn a_scan_goes_on_after_a_key() {
        testing::reset();
        for key in ["v/1", "v/2", "v/3", "w/1"] {
            state::create(key, &0_u64).unwrap();
        }
        let keys = |after, limit| -> Vec<String> {
            let page = state::scan::<u64>("v/", after, limit).unwrap();
            page.into_iter().map(|(key, _)| key).collect()
        };
        assert_eq!(keys(None, 2), ["v/1", "v/2"]);
        assert_eq!(keys(Some("v/2"), 2), ["v/3"]);
        assert_eq!(keys(Some("v/3"), 2), Vec::<String>::new());
    }

    #[test]
    fn a_node_call_has_no_state() {
        testing::reset();
        let answer = testing::record(|_| state::get::<u64>("a").map(drop));
        assert_eq!(
            answer.map_err(|error| error.code),
            Err(Code::FailedPrecondition)
        );
    }

    #[test]
    fn limits_are_the_hosts() {
        testing::reset();
        let code = |answer: Result<_, Error>| answer.map(drop).map_err(|error| error.code);
        let refused = Err(Code::InvalidArgument);
        assert_eq!(code(state::create("", &0_u64)), refused);
        assert_eq!(code(state::create(&"k".repeat(1025), &0_u64)), refused);
        assert_eq!(
            code(state::create("a", &vec![0_u8; (1 << 20) + 1])),
            refused
        );
        assert_eq!(
            code(state::create(&"k".repeat(1024), &vec![0_u8; 1 << 20])),
            Ok(())
        );
    }
}
