//! Objects of one kind that a backend records, each under an id derived from its name: volumes, snapshots, buckets.
//!
//! A record is a JSON object that names its schema (`{"schema":1, ..}`): administrators read a store too, and it outlives the version of the backend
//! that wrote it.

use super::{change, create, delete, get, page};
use crate::error::Error;
use crate::id;
use crate::volume::PageRequest;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::marker::PhantomData;

/// Records of type `T` whose ids have one prefix. An id from elsewhere, such as `../../etc`, has no record.
///
/// An older schema is read as if it were `SCHEMA`, so give a field that it lacks a `#[serde(default)]`. A newer one is rejected with
/// `failed-precondition`: an older version of the backend, after a rollback, must not guess. Data that cannot be read as before needs another
/// `SCHEMA`.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use wasmount_guest::{Error, state, testing};
///
/// #[derive(Serialize, Deserialize)]
/// struct Bucket {
///     size_bytes: u64,
/// }
///
/// const BUCKETS: state::Collection<Bucket, 1> = state::Collection::new("bucket");
///
/// testing::reset();
/// let id = BUCKETS.id("pvc-1");
/// BUCKETS.create(&id, &Bucket { size_bytes: 7 })?;
/// BUCKETS.change(&id, |bucket| {
///     bucket.size_bytes += 1;
///     Ok(())
/// })?;
/// assert_eq!(BUCKETS.get(&id)?.size_bytes, 8);
/// assert_eq!(state::require::<String>(&id)?.value, r#"{"schema":1,"size_bytes":8}"#);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Collection<T, const SCHEMA: u32> {
    prefix: &'static str,
    records: PhantomData<fn() -> T>,
}

impl<T: Serialize + DeserializeOwned, const SCHEMA: u32> Collection<T, SCHEMA> {
    /// Objects whose ids begin with `prefix` and `-`; no other collection's prefix may begin in the same way.
    pub const fn new(prefix: &'static str) -> Self {
        Self {
            prefix,
            records: PhantomData,
        }
    }

    /// The id of the object with this name, see [`crate::id::from_name`].
    pub fn id(&self, name: &str) -> String {
        id::from_name(self.prefix, name)
    }

    /// Rejects an id that was not derived from a name here, with `not-found`. For node calls, which have no access to records.
    pub fn must_be_id(&self, id: &str) -> Result<(), Error> {
        id::must_be_from_name(self.prefix, id)
    }

    /// The record, if it exists.
    pub fn find(&self, id: &str) -> Result<Option<T>, Error> {
        if !id::is_from_name(self.prefix, id) {
            return Ok(None);
        }
        let found = get::<Vec<u8>>(id)?;
        found.map(|it| self.decode(id, &it.value)).transpose()
    }

    /// A record that must exist: `not-found` otherwise.
    pub fn get(&self, id: &str) -> Result<T, Error> {
        self.find(id)?.ok_or_else(|| self.absent())
    }

    /// See [`crate::state::create`].
    pub fn create(&self, id: &str, value: &T) -> Result<(), Error> {
        create(id, &self.encode(value)?).map(drop)
    }

    /// Writes a record, whether or not there is one.
    pub fn put(&self, id: &str, value: &T) -> Result<(), Error>
    where
        T: Clone,
    {
        self.change_any(id, |there| {
            *there = Some(value.clone());
            Ok(())
        })
    }

    /// Changes a record that must exist, see [`crate::state::change`]: `not-found` otherwise.
    pub fn change<R>(
        &self,
        id: &str,
        mut decide: impl FnMut(&mut T) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.change_any(id, |value| match value {
            Some(value) => decide(value),
            None => Err(self.absent()),
        })
    }

    /// Changes, creates or removes a record that may exist.
    pub fn change_any<R>(
        &self,
        id: &str,
        mut decide: impl FnMut(&mut Option<T>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.must_be_id(id)?;
        change(id, |bytes: &mut Option<Vec<u8>>| {
            let there = bytes.as_deref().map(|bytes| self.decode(id, bytes));
            let mut value = there.transpose()?;
            let answer = decide(&mut value)?;
            *bytes = value.map(|value| self.encode(&value)).transpose()?;
            Ok(answer)
        })
    }

    /// Removes the record, if it is there.
    pub fn delete(&self, id: &str) -> Result<(), Error> {
        self.must_be_id(id)?;
        delete(id)
    }

    /// One page of all records, see [`crate::state::page`].
    pub fn page<E>(
        &self,
        request: &PageRequest,
        mut show: impl FnMut(String, T) -> Result<Option<E>, Error>,
    ) -> Result<(Vec<E>, Option<String>), Error> {
        let prefix = format!("{}-", self.prefix);
        page(&prefix, request, |id, bytes: Vec<u8>| {
            let value = self.decode(&id, &bytes)?;
            show(id, value)
        })
    }

    fn absent(&self) -> Error {
        Error::not_found(format!("there is no {} of this id", self.prefix))
    }

    fn encode(&self, value: &T) -> Result<Vec<u8>, Error> {
        let schema = SCHEMA;
        serde_json::to_vec(&Written { schema, value })
            .map_err(|error| Error::internal(format!("a record must be a JSON object: {error}")))
    }

    fn decode(&self, id: &str, bytes: &[u8]) -> Result<T, Error> {
        let damaged =
            |error| Error::data_loss(format!("the record of `{id}` cannot be read: {error}"));
        let Head { schema } = serde_json::from_slice(bytes).map_err(damaged)?;
        if schema > SCHEMA {
            return Err(Error::failed_precondition(format!(
                "the record of `{id}` has schema {schema}, this version knows {SCHEMA}: put the newer plugin back"
            )));
        }
        serde_json::from_slice(bytes).map_err(damaged)
    }
}

#[derive(Serialize)]
struct Written<'a, T> {
    schema: u32,
    #[serde(flatten)]
    value: &'a T,
}

/// Read first: the schema decides how the rest is read.
#[derive(Deserialize)]
struct Head {
    schema: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::{state, testing};

    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    struct Bucket {
        size_bytes: u64,
        #[serde(default)]
        owner: Option<String>,
    }

    const BUCKETS: Collection<Bucket, 2> = Collection::new("bucket");

    fn bucket(owner: Option<&str>) -> Bucket {
        Bucket {
            size_bytes: 7,
            owner: owner.map(str::to_owned),
        }
    }

    fn code<T>(answer: Result<T, Error>) -> Result<T, Code> {
        answer.map_err(|error| error.code)
    }

    #[test]
    fn a_record_lives_from_creation_to_deletion() {
        testing::reset();
        let id = BUCKETS.id("pvc-1");
        assert_eq!(BUCKETS.find(&id), Ok(None));
        for _ in 0..2 {
            BUCKETS.create(&id, &bucket(None)).unwrap();
        }
        assert_eq!(
            code(BUCKETS.create(&id, &bucket(Some("me")))),
            Err(Code::Aborted)
        );
        let named = BUCKETS.change(&id, |it| {
            it.owner = Some("me".to_owned());
            Ok("done")
        });
        assert_eq!(named, Ok("done"));
        assert_eq!(BUCKETS.get(&id), Ok(bucket(Some("me"))));
        BUCKETS.put(&id, &bucket(None)).unwrap();
        assert_eq!(BUCKETS.get(&id), Ok(bucket(None)));
        let request = crate::PageRequest {
            max_entries: None,
            starting_token: None,
        };
        let ids = BUCKETS.page(&request, |id, _| Ok(Some(id)));
        assert_eq!(ids, Ok((vec![id.clone()], None)));
        for _ in 0..2 {
            BUCKETS.delete(&id).unwrap();
        }
        assert_eq!(code(BUCKETS.get(&id)), Err(Code::NotFound));
        assert_eq!(code(BUCKETS.change(&id, |_| Ok(()))), Err(Code::NotFound));
        BUCKETS.put(&id, &bucket(None)).unwrap();
        assert_eq!(BUCKETS.get(&id), Ok(bucket(None)));
    }

    #[test]
    fn a_rejected_change_writes_nothing() {
        testing::reset();
        let id = BUCKETS.id("pvc-1");
        BUCKETS.create(&id, &bucket(None)).unwrap();
        let refused: Result<(), _> = BUCKETS.change(&id, |it| {
            it.size_bytes = 0;
            Err(Error::out_of_range("no"))
        });
        assert_eq!(code(refused), Err(Code::OutOfRange));
        assert_eq!(BUCKETS.get(&id), Ok(bucket(None)));
        state::create("bucket-1", &7_u64).unwrap();
        for other in ["bucket-1", "../../etc", ""] {
            assert_eq!(BUCKETS.find(other), Ok(None), "{other}");
            assert_eq!(code(BUCKETS.delete(other)), Err(Code::NotFound));
            assert_eq!(code(BUCKETS.change(other, |_| Ok(()))), Err(Code::NotFound));
        }
    }

    #[test]
    fn an_older_schema_is_read_and_a_newer_one_is_rejected() {
        testing::reset();
        let id = BUCKETS.id("pvc-1");
        let read = |text: &str| {
            state::put(&id, &text.to_owned(), state::Expect::Any).unwrap();
            code(BUCKETS.get(&id))
        };
        assert_eq!(read(r#"{"schema":1,"size_bytes":7}"#), Ok(bucket(None)));
        let newer = read(r#"{"schema":3,"size_bytes":7}"#);
        assert_eq!(newer, Err(Code::FailedPrecondition));
        for damaged in [
            "",
            "7",
            "{}",
            r#"{"size_bytes":7}"#,
            r#"{"schema":2}"#,
            r#"{"schema":2,"size_bytes":"7"}"#,
            r#"{"schema":2,"size_bytes":7"#,
        ] {
            assert_eq!(read(damaged), Err(Code::DataLoss), "{damaged}");
        }
    }

    #[test]
    fn what_is_no_object_is_not_written() {
        const NUMBERS: Collection<u64, 1> = Collection::new("number");
        testing::reset();
        let refused = NUMBERS.create(&NUMBERS.id("a"), &7);
        assert_eq!(code(refused), Err(Code::Internal));
        assert!(testing::state_keys().is_empty());
    }
}
