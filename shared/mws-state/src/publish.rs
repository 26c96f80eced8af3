//! Replacing an artifact: whole or not at all, also across a power cut.
//!
//! Invariant: a reader sees the old bytes or the new ones, never a mixture and never nothing.
//! Deliberately absent: history. The log has it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::dir::private_dir;
use crate::read_file;

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Puts `bytes` at `path`: temp file in the same directory, fsync, rename, fsync directory.
/// The directory is created, 0700, when it is missing.
///
/// # Errors
/// The message names the path; the old file is untouched then.
pub fn publish(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace(path, bytes)
        .map_err(|e| io::Error::new(e.kind(), format!("cannot publish {}: {e}", path.display())))
}

/// Publishes unless the file already holds exactly `bytes`; true when it was replaced.
///
/// # Errors
/// As [`publish`].
pub fn publish_if_changed(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let same = read_file(path, bytes.len() as u64).is_ok_and(|(old, _)| old == bytes);
    if !same {
        publish(path, bytes)?;
    }
    Ok(!same)
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other("not a path of a file"));
    };
    if !dir.exists() {
        private_dir(dir)?;
    }
    let n = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temp = dir.join(format!(".{}.tmp.{}.{n}", name.to_string_lossy(), std::process::id()));
    let written = write_new(&temp, bytes).and_then(|()| std::fs::rename(&temp, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temp);
    }
    written?;
    File::open(dir)?.sync_all()
}

fn write_new(temp: &Path, bytes: &[u8]) -> io::Result<()> {
    // A file left by a killed process of the same id would make `create_new` fail for ever.
    let _ = std::fs::remove_file(temp);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temp)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_file_is_replaced_private_and_without_leftovers() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = tmp.path().join("a.json");
        publish(&path, b"one").expect("published");
        let first = std::fs::metadata(&path).expect("there");
        publish(&path, b"two").expect("published");
        let second = std::fs::metadata(&path).expect("there");
        assert_eq!(std::fs::read(&path).expect("read"), b"two");
        assert_ne!(first.ino(), second.ino());
        assert_eq!(second.mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(tmp.path()).expect("listed").count(), 1);
    }

    #[test]
    fn equal_bytes_are_not_written_again() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = tmp.path().join("a.json");
        assert!(publish_if_changed(&path, b"one").expect("published"));
        assert!(!publish_if_changed(&path, b"one").expect("compared"));
        assert!(publish_if_changed(&path, b"on").expect("published"));
    }

    #[test]
    fn a_failed_publish_names_the_path_and_keeps_the_old_file() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = tmp.path().join("dir");
        std::fs::create_dir(&path).expect("a directory in the way");
        std::fs::File::create(path.join("x")).expect("a file in it");
        let error = publish(&path, b"new").expect_err("cannot replace a directory").to_string();
        assert!(error.contains("dir"), "{error}");
        assert!(path.join("x").exists());
    }
}
