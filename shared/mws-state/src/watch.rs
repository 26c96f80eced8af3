//! Noticing that a published file changed, by its identity, without a file watcher.
//!
//! Invariant: the last good value survives anything that happens to the file; damage is reported
//! once for each damaged version.
//! Deliberately absent: inotify. It loses replaced files and does not work on every file system.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use crate::fs::{Identity, ReadError, read_file};

/// What [`Watched::refresh`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchedState {
    /// Same file as before, or still none.
    Same,
    /// A new version was read.
    Changed,
    /// A new version is damaged or unreadable; the old value stays. Says why.
    Rejected(String),
}

/// The last good value parsed from one path.
#[derive(Debug)]
pub struct Watched<T> {
    path: PathBuf,
    max: u64,
    seen: Option<Identity>,
    complaint: Option<String>,
    value: Option<Arc<T>>,
}

impl<T> Watched<T> {
    /// Watches `path`, reading at most `max` bytes of it. Nothing is read yet.
    pub fn new(path: PathBuf, max: u64) -> Self {
        Self { path, max, seen: None, complaint: None, value: None }
    }

    /// The last good value.
    pub fn get(&self) -> Option<&Arc<T>> {
        self.value.as_ref()
    }

    /// Reads the file again if it is another one than before.
    pub fn refresh(&mut self, parse: impl FnOnce(&[u8]) -> Result<T, String>) -> WatchedState {
        match std::fs::symlink_metadata(&self.path) {
            Ok(meta) if Some(Identity::of(&meta)) == self.seen => return WatchedState::Same,
            Err(e) if e.kind() == ErrorKind::NotFound && self.value.is_none() => {
                return WatchedState::Same;
            }
            _ => {}
        }
        match read_file(&self.path, self.max) {
            Ok((bytes, identity)) => {
                self.seen = Some(identity);
                match parse(&bytes) {
                    Ok(value) => {
                        self.value = Some(Arc::new(value));
                        self.complaint = None;
                        WatchedState::Changed
                    }
                    Err(why) => self.reject(why),
                }
            }
            Err(ReadError::Missing) if self.value.is_none() => WatchedState::Same,
            Err(e) => self.reject(e.to_string()),
        }
    }

    fn reject(&mut self, why: String) -> WatchedState {
        let complaint = format!("{:?} {why}", self.seen);
        if self.complaint.as_ref() == Some(&complaint) {
            return WatchedState::Same;
        }
        self.complaint = Some(complaint);
        WatchedState::Rejected(why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publish;

    fn number(bytes: &[u8]) -> Result<u32, String> {
        std::str::from_utf8(bytes).ok().and_then(|s| s.parse().ok()).ok_or("no number".into())
    }

    #[test]
    fn changes_are_seen_and_damage_keeps_the_last_good_value() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = tmp.path().join("n");
        let mut watched = Watched::new(path.clone(), 16);
        assert_eq!(watched.refresh(number), WatchedState::Same);
        publish(&path, b"1").expect("published");
        assert_eq!(watched.refresh(number), WatchedState::Changed);
        assert_eq!(watched.refresh(number), WatchedState::Same);
        publish(&path, b"x").expect("published");
        assert_eq!(watched.refresh(number), WatchedState::Rejected("no number".into()));
        assert_eq!(watched.refresh(number), WatchedState::Same);
        assert_eq!(watched.get().map(|n| **n), Some(1));
        publish(&path, b"2").expect("published");
        assert_eq!(watched.refresh(number), WatchedState::Changed);
        std::fs::remove_file(&path).expect("removed");
        assert!(matches!(watched.refresh(number), WatchedState::Rejected(_)));
        assert_eq!(watched.refresh(number), WatchedState::Same);
        assert_eq!(watched.get().map(|n| **n), Some(2));
    }

    #[test]
    fn links_directories_and_large_files_are_rejected() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = tmp.path().join("n");
        std::os::unix::fs::symlink("/etc/hostname", &path).expect("a link");
        assert!(matches!(
            Watched::new(path.clone(), 16).refresh(number),
            WatchedState::Rejected(_)
        ));
        std::fs::remove_file(&path).expect("removed");
        std::fs::create_dir(&path).expect("a directory");
        assert!(matches!(
            Watched::new(path.clone(), 16).refresh(number),
            WatchedState::Rejected(_)
        ));
        std::fs::remove_dir(&path).expect("removed");
        publish(&path, b"12345678901234567").expect("published");
        assert!(matches!(Watched::new(path, 16).refresh(number), WatchedState::Rejected(_)));
    }
}
