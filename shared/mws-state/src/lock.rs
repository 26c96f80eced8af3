//! One run of a stage at a time.
//!
//! Invariant: the lock is the kernel's, so it ends with its holder, however that ends.
//! Deliberately absent: waiting; a second run says so and leaves.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use crate::StateDir;

/// Held while a stage runs.
#[derive(Debug)]
pub struct StageLock {
    _file: File,
}

impl StageLock {
    /// Takes the lock of `stage`; `None` when another run holds it.
    ///
    /// # Errors
    /// When the state directory or the lock file cannot be created.
    pub fn acquire(state: &StateDir, stage: &str) -> io::Result<Option<Self>> {
        state.create()?;
        let path = state.root().join(format!(".{stage}.lock"));
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).mode(0o600).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_is_refused_until_the_first_ends() {
        let tmp = tempfile::tempdir().expect("a directory");
        let state = StateDir::at(tmp.path().join("s"));
        let first = StageLock::acquire(&state, "index").expect("no error");
        assert!(first.is_some());
        assert!(StageLock::acquire(&state, "index").expect("no error").is_none());
        assert!(StageLock::acquire(&state, "promote").expect("no error").is_some());
        drop(first);
        assert!(StageLock::acquire(&state, "index").expect("no error").is_some());
    }
}
