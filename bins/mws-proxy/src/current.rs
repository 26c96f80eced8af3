//! A value that may be replaced while it is in use.
//!
//! Invariant: who took it keeps it to the end of its request, whatever replaces it meanwhile.
//! Deliberately absent: what makes it change.

use std::sync::{Arc, Mutex};

use crate::lock::lock;

/// The value in force.
pub(crate) struct Current<T>(Mutex<Arc<T>>);

impl<T> Current<T> {
    pub(crate) fn new(value: Arc<T>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(value)))
    }

    pub(crate) fn get(&self) -> Arc<T> {
        Arc::clone(&lock(&self.0))
    }

    pub(crate) fn set(&self, value: Arc<T>) {
        *lock(&self.0) = value;
    }
}
