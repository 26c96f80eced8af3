//! Locking a mutex that is held for a moment only.
//!
//! Invariant: a panic elsewhere does not spread: what a mutex guards here is whole at any time.
//! Deliberately absent: locks that are held across a wait; those are tokio's.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
