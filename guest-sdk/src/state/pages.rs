//! Pages over records, in the order of their keys: a token is the last key of the page before, so what comes and goes meanwhile moves nothing, and
//! each record is listed once.

use super::{Record, Value, scan};
use crate::error::Error;
use crate::volume::PageRequest;

/// Entries of a page where the caller asks for more or does not say: one answer stays far below 1 MiB.
const MOST_ENTRIES: u32 = 1000;

/// One page of the records whose keys begin with `prefix`: the entries that `show` makes of them, `None` for what is left out, and the token
/// of the next page. A token that was not given here: `aborted`.
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
            // Only now is it known that there is one more.
            if u32::try_from(entries.len()).is_ok_and(|shown| shown == limit) {
                return Ok((entries, after));
            }
            entries.extend(show(key.clone(), value)?);
            after = Some(key);
        }
        // Where most is left out, a small page must not ask the host for each record.
        step = step.saturating_mul(2).min(MOST_ENTRIES);
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
