//! The interfaces `state` and `pool` of a thread: those in memory, or another host's, for a program that runs a backend as native code.

use super::{reset, with};
use crate::error::Error;
use crate::pool as pools;
use crate::state as records;
use std::rc::Rc;

/// Records and pools outside of this process's memory.
pub trait Storage: State + Pools {}

impl<T: State + Pools> Storage for T {}

/// Runs one call of a backend with these records and pools. Everything else that it imports is in memory, and new: see [`reset`].
pub fn with_storage<R>(storage: Rc<dyn Storage>, call: impl FnOnce() -> R) -> R {
    reset();
    with(|host| host.storage = Some(storage));
    let answer = call();
    reset();
    answer
}

/// A copy, since the storage may be asked while nothing is borrowed only.
fn current() -> Option<Rc<dyn Storage>> {
    with(|host| host.storage.clone())
}

/// The functions of an interface as a trait, and the same functions of the storage of the thread.
macro_rules! interface {
    ($(#[$doc:meta])* $trait:ident, $module:ident {
        $(fn $function:ident($($argument:ident: $type:ty),* $(,)?) -> $answer:ty;)+
    }) => {
        $(#[$doc])*
        #[allow(missing_docs, reason = "the names are those of the contract")]
        pub trait $trait {
            $(fn $function(&self $(, $argument: $type)*) -> $answer;)+
        }

        pub(crate) mod $module {
            use super::*;

            $(pub(crate) fn $function($($argument: $type),*) -> $answer {
                match current() {
                    Some(storage) => storage.$function($($argument),*),
                    None => crate::testing::$module::$function($($argument),*),
                }
            })+
        }
    };
}

interface! {
    /// The interface `state`.
    State, state {
        fn get(key: &str) -> Result<Option<records::Entry>, Error>;
        fn put(key: &str, value: &[u8], expect: records::Expect) -> Result<records::Outcome, Error>;
        fn remove(key: &str, expect: records::Expect) -> Result<records::Outcome, Error>;
        fn scan(prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<records::Entry>, Error>;
    }
}

interface! {
    /// The interface `pool`.
    Pools, pool {
        fn names() -> Vec<String>;
        fn capacity(pool: &str) -> Result<pools::Usage, Error>;
        fn stat(pool: &str, path: &str) -> Result<Option<pools::Entry>, Error>;
        fn list(pool: &str, path: &str, after: Option<&str>, limit: u32) -> Result<Vec<pools::Entry>, Error>;
        fn create_directory(pool: &str, path: &str) -> Result<(), Error>;
        fn remove_directory(pool: &str, path: &str) -> Result<(), Error>;
        fn create_image(pool: &str, path: &str, size_bytes: u64) -> Result<(), Error>;
        fn resize_image(pool: &str, path: &str, size_bytes: u64) -> Result<(), Error>;
        fn remove_image(pool: &str, path: &str) -> Result<(), Error>;
        fn clone_image(pool: &str, source: &str, target: &str) -> Result<(), Error>;
        fn clone_images(pool: &str, copies: &[(String, String)]) -> Result<(), Error>;
        fn clone_directory(pool: &str, source: &str, target: &str) -> Result<(), Error>;
        fn rename(pool: &str, source: &str, target: &str) -> Result<(), Error>;
        fn set_permissions(pool: &str, path: &str, mode: u32, uid: Option<u32>, gid: Option<u32>) -> Result<(), Error>;
        fn set_quota(pool: &str, path: &str, bytes: Option<u64>) -> Result<bool, Error>;
        fn allocated_extents(pool: &str, path: &str, offset: u64, limit: u32) -> Result<pools::Extents, Error>;
        fn changed_extents(pool: &str, base: &str, target: &str, offset: u64, limit: u32) -> Result<pools::Extents, Error>;
    }
}
