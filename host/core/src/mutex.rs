//! Locking of data that stays consistent when a thread panics.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks data of which each change is one step, so that a panic cannot leave half of one.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
