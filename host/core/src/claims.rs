//! Claims: which calls of one driver may run concurrently.
//!
//! `table` is pure data, `rules` says which call claims what, `lock` puts the table behind a mutex. Controller and node of one process share a table:
//! a volume cannot be deleted while it is being staged.

mod lock;
mod rules;
mod table;

/// The primitives of `lock`; its model test replaces them.
mod sync {
    pub(super) use std::sync::{Arc, Mutex};
}

pub(crate) use lock::{ClaimLock, Claimed};
pub use rules::changes;
pub(crate) use rules::{Subject, claims, volume_alone};
pub(crate) use table::{Claim, ClaimKey};

use crate::error::Error;

/// Of a key that another call holds.
impl From<ClaimKey> for Error {
    fn from(held: ClaimKey) -> Self {
        Error::InFlight {
            subject: held.to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
