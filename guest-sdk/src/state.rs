//! Durable records of this backend, each with a revision.
//!
//! It belongs to the controller service: during a node call every function returns `failed-precondition`. Data for the node is passed in the id and
//! the contexts of the volume. A write is visible to other calls at once, and on stable storage before the current call is answered.

mod collection;

use crate::call;
use crate::error::{Code, Error};
use crate::imports;
use crate::volume::PageRequest;

pub use collection::Collection;

pub use crate::bindings::imports::wasmount::csi::state::{Entry, Expect, Outcome, Revision};

/// Entries of a page where the client asks for more or sets no number: one answer stays far below 1 MiB.
const MOST_ENTRIES: u32 = 1000;

/// A type that a record can hold. [`Collection`] stores types of your own; implement this trait for another encoding.
pub trait Value: Sized {
    /// The stored bytes.
    fn to_bytes(&self) -> Vec<u8>;
    /// `None`: the bytes are not a value of this type.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

impl Value for Vec<u8> {
    fn to_bytes(&self) -> Vec<u8> {
        self.clone()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(bytes.to_vec())
    }
}

impl Value for String {
    fn to_bytes(&self) -> Vec<u8> {
        self.clone().into_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        String::from_utf8(bytes.to_vec()).ok()
    }
}

impl Value for u64 {
    /// In decimal digits: administrators read a store too.
    fn to_bytes(&self) -> Vec<u8> {
        self.to_string().into_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        std::str::from_utf8(bytes).ok()?.parse().ok()
    }
}

/// A record that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<T> {
    /// Its value.
    pub value: T,
    /// For [`update`]: the revision that no other call may have changed.
    pub revision: Revision,
}

/// Whether this call has access to records: a node call has not.
pub fn is_available() -> Result<bool, Error> {
    match imports::state::scan("", None, 0) {
        Ok(_) => Ok(true),
        Err(error) if error.code == Code::FailedPrecondition => Ok(false),
        Err(error) => Err(error),
    }
}

/// The record of a key; `data-loss` when it cannot be read as a `T`.
pub fn get<T: Value>(key: &str) -> Result<Option<Record<T>>, Error> {
    let Some(entry) = imports::state::get(key)? else {
        return Ok(None);
    };
    record(entry).map(Some)
}

/// The record of a key that must exist: `not-found` otherwise.
pub fn require<T: Value>(key: &str) -> Result<Record<T>, Error> {
    get(key)?.ok_or_else(|| Error::not_found(format!("`{key}` does not exist")))
}

/// Creates a record. Success if it exists with the same value; `aborted` if it exists with another value, since the client then retries and finds it.
pub fn create<T: Value>(key: &str, value: &T) -> Result<Revision, Error> {
    match put(key, value, Expect::Absent)? {
        Outcome::Conflict(Some(there)) if there.value == value.to_bytes() => Ok(there.revision),
        outcome => done(key, outcome),
    }
}

/// Replaces a record that no other call changed since it was read: `aborted` otherwise.
pub fn update<T: Value>(key: &str, value: &T, read: Revision) -> Result<Revision, Error> {
    done(key, put(key, value, Expect::Revision(read))?)
}

/// Reads a record, lets `decide` change it, and writes the result; `None` means no record. If `decide` fails, nothing is written. If another call
/// changed the record meanwhile, `decide` is called again with the new value, so it must have no effects of its own; `aborted` if this repeats until
/// the call's time is over.
pub fn change<T: Value, R>(
    key: &str,
    mut decide: impl FnMut(&mut Option<T>) -> Result<R, Error>,
) -> Result<R, Error> {
    let mut answer = None;
    swap(key, &mut |there| {
        let mut value = there.map(record).transpose()?.map(|record| record.value);
        answer = Some(decide(&mut value)?);
        Ok(value.map(|value| value.to_bytes()))
    })?;
    answer.ok_or_else(|| Error::internal(format!("no decision was made about `{key}`")))
}

/// Compares and swaps until no other call interferes. Separate from [`change`], of which a component has one copy for each type of record.
fn swap(
    key: &str,
    decide: &mut dyn FnMut(Option<Entry>) -> Result<Option<Vec<u8>>, Error>,
) -> Result<(), Error> {
    let mut there = imports::state::get(key)?;
    loop {
        let (before, expect) = match &there {
            Some(entry) => (Some(entry.value.clone()), Expect::Revision(entry.revision)),
            None => (None, Expect::Absent),
        };
        let after = decide(there)?;
        if before == after {
            return Ok(());
        }
        let outcome = match after {
            Some(bytes) => imports::state::put(key, &bytes, expect)?,
            None => imports::state::remove(key, expect)?,
        };
        there = match outcome {
            Outcome::Conflict(there) if !call::is_cancelled() => there,
            outcome => return done(key, outcome).map(drop),
        };
    }
}

/// Removes a record, if it is there.
pub fn delete(key: &str) -> Result<(), Error> {
    remove(key, Expect::Any).map(drop)
}

/// Writes if `expect` is true. This is the host's own function; the functions above use it.
pub fn put<T: Value>(key: &str, value: &T, expect: Expect) -> Result<Outcome, Error> {
    imports::state::put(key, &value.to_bytes(), expect)
}

/// Removes if `expect` is true.
pub fn remove(key: &str, expect: Expect) -> Result<Outcome, Error> {
    imports::state::remove(key, expect)
}

/// Keys that begin with `prefix`, in order and greater than `after`, with their records; at most `limit`, the host may return fewer. An empty list is
/// the end.
pub fn scan<T: Value>(
    prefix: &str,
    after: Option<&str>,
    limit: u32,
) -> Result<Vec<(String, Record<T>)>, Error> {
    imports::state::scan(prefix, after, limit)?
        .into_iter()
        .map(|entry| Ok((entry.key.clone(), record(entry)?)))
        .collect()
}

/// One page of the records whose keys begin with `prefix`: the entries that `show` returns, without `None`, and the token of the next page. A token
/// is the last key of the page before, so records that are created or deleted meanwhile shift nothing, and each record is listed once. A token that
/// was not returned here gives `aborted`.
///
/// ```
/// use wasmount_guest::{Error, PageRequest, state, testing};
///
/// testing::reset();
/// for (key, size) in [("bucket-1", 7_u64), ("bucket-2", 8), ("bucket-3", 9)] {
///     state::create(key, &size)?;
/// }
/// let page = PageRequest { max_entries: Some(2), starting_token: None };
/// let (sizes, next) = state::page("bucket-", &page, |_, size: u64| Ok(Some(size)))?;
/// assert_eq!((sizes, next.as_deref()), (vec![7, 8], Some("bucket-2")));
/// # Ok::<(), Error>(())
/// ```
pub fn page<T: Value, E>(
    prefix: &str,
    page: &PageRequest,
    mut show: impl FnMut(String, T) -> Result<Option<E>, Error>,
) -> Result<(Vec<E>, Option<String>), Error> {
    let mut after = page.starting_token.clone();
    if after
        .as_ref()
        .is_some_and(|token| !token.starts_with(prefix))
    {
        return Err(Error::aborted(
            "this token was not given here: list from the beginning",
        ));
    }
    let limit = page.max_entries.unwrap_or(MOST_ENTRIES);
    let limit = limit.clamp(1, MOST_ENTRIES);
    let mut entries = Vec::new();
    let mut step = limit;
    loop {
        let records = scan::<T>(prefix, after.as_deref(), step)?;
        if records.is_empty() {
            return Ok((entries, None));
        }
        for (key, Record { value, .. }) in records {
            // Only now it is known that there is another entry.
            if u32::try_from(entries.len()).is_ok_and(|shown| shown == limit) {
                return Ok((entries, after));
            }
            entries.extend(show(key.clone(), value)?);
            after = Some(key);
        }
        // If `show` leaves most records out, a small page must not cause a host call for each record.
        step = step.saturating_mul(2).min(MOST_ENTRIES);
    }
}

fn record<T: Value>(entry: Entry) -> Result<Record<T>, Error> {
    Ok(Record {
        value: read(&entry.key, &entry.value)?,
        revision: entry.revision,
    })
}

/// The value that the bytes of a record are; `data-loss` when they are none.
pub(crate) fn read<T: Value>(key: &str, bytes: &[u8]) -> Result<T, Error> {
    let unreadable = || Error::data_loss(format!("the record of `{key}` is not readable"));
    T::from_bytes(bytes).ok_or_else(unreadable)
}

fn done(key: &str, outcome: Outcome) -> Result<Revision, Error> {
    match outcome {
        Outcome::Done(revision) => Ok(revision),
        Outcome::Conflict(_) => Err(Error::aborted(format!(
            "another call changed `{key}` meanwhile: retry"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::{state, testing};

    /// Odd numbers below `v/`, in pages of two.
    fn odd(starting_token: Option<String>) -> Result<(Vec<u64>, Option<String>), Error> {
        let request = PageRequest {
            max_entries: Some(2),
            starting_token,
        };
        page("v/", &request, |_, number: u64| {
            Ok((number % 2 == 1).then_some(number))
        })
    }

    #[test]
    fn each_record_is_listed_once_while_others_go() {
        testing::reset();
        for number in 0..10_u64 {
            state::create(&format!("v/{number}"), &number).unwrap();
        }
        state::create("w/1", &1_u64).unwrap();
        let (mut found, mut token) = (Vec::new(), None);
        loop {
            let (entries, next) = odd(token).unwrap();
            assert!(entries.len() <= 2);
            found.extend(entries);
            // The record that the token names, too.
            for number in 0..=3 {
                state::delete(&format!("v/{number}")).unwrap();
            }
            token = next;
            if token.is_none() {
                break;
            }
        }
        assert_eq!(found, [1, 3, 5, 7, 9]);
    }

    #[test]
    fn a_small_page_of_few_among_many_takes_few_calls_of_the_host() {
        testing::reset();
        for number in 0..1000_u64 {
            state::create(&format!("v/{number:04}"), &number).unwrap();
        }
        let request = PageRequest {
            max_entries: Some(1),
            starting_token: None,
        };
        // 1 + 2 + .. + 512 reach all of them, and one more call finds the end.
        testing::fail_after(11, Error::unavailable("too many calls"));
        let last = page("v/", &request, |_, number: u64| {
            Ok((number == 999).then_some(number))
        });
        assert_eq!(last, Ok((vec![999], None)));
    }

    #[test]
    fn a_page_that_ends_with_the_last_record_has_no_token() {
        testing::reset();
        state::create("v/1", &1_u64).unwrap();
        state::create("v/3", &3_u64).unwrap();
        assert_eq!(odd(None), Ok((vec![1, 3], None)));
    }

    #[test]
    fn a_foreign_token_or_broken_record_ends_the_list() {
        testing::reset();
        let code = |answer: Result<(Vec<u64>, _), Error>| answer.map_err(|error| error.code);
        assert_eq!(code(odd(Some("w/1".to_owned()))), Err(Code::Aborted));
        state::create("v/1", &1_u64).unwrap();
        let unshown = |_, _: u64| Err(Error::internal("no"));
        let request = PageRequest {
            max_entries: None,
            starting_token: None,
        };
        assert_eq!(code(page("v/", &request, unshown)), Err(Code::Internal));
    }
}
