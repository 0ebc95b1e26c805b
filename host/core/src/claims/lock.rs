//! The table of claims behind a mutex, and the guard that releases them.
//!
//! The mutex is held for table look-ups only, never across an await.

use super::sync::{Arc, Mutex};
use super::table::{Claim, ClaimKey, Table, Token};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// The claims of one driver.
#[derive(Clone, Default)]
pub(crate) struct ClaimLock {
    table: Arc<Mutex<Table>>,
    rejected: Arc<AtomicU64>,
}

/// A granted set of claims; dropping it releases them.
#[must_use = "claims end when this is dropped"]
pub(crate) struct Claimed {
    table: Arc<Mutex<Table>>,
    token: Token,
}

impl ClaimLock {
    /// Grants all claims or none, at once. The error is a key that another call holds.
    pub(crate) fn acquire(
        &self,
        set: impl IntoIterator<Item = Claim>,
    ) -> Result<Claimed, ClaimKey> {
        let token = with(&self.table, |table| table.acquire(set)).inspect_err(|_| {
            self.rejected.fetch_add(1, Ordering::Relaxed);
        })?;
        Ok(Claimed {
            table: Arc::clone(&self.table),
            token,
        })
    }

    /// How many sets were rejected.
    pub(crate) fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        with(&self.table, |table| table.release(&self.token));
    }
}

/// No look-up can panic half way, so the table behind a poisoned mutex is consistent.
fn with<T>(table: &Mutex<Table>, work: impl FnOnce(&mut Table) -> T) -> T {
    work(&mut table.lock().unwrap_or_else(PoisonError::into_inner))
}
