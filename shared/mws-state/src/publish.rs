//! Replacing an artifact: whole or not at all, also across a power cut.
//!
//! Invariant: a reader sees the old bytes or the new ones, never a mixture and never nothing.
//! Deliberately absent: history. The log has it.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::dir::private_dir;
use crate::fs::open_regular;

/// What is read or written at a time.
const PIECE: usize = 64 * 1024;

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Puts `bytes` at `path`: temp file in the same directory, fsync, rename, fsync directory.
/// The directory is created, 0700, when it is missing.
///
/// # Errors
/// The message names the path; the old file is untouched then.
pub fn publish(path: &Path, bytes: &[u8]) -> io::Result<()> {
    publish_parts(path, &[bytes])
}

fn publish_parts(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    replace(path, parts)
        .map_err(|e| io::Error::new(e.kind(), format!("cannot publish {}: {e}", path.display())))
}

/// Publishes unless the file already holds exactly `bytes`; true when it was replaced.
///
/// # Errors
/// As [`publish`].
pub fn publish_if_changed(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    publish_parts_if_changed(path, &[bytes])
}

/// As [`publish_if_changed`], for what is too large to be put together in memory.
///
/// # Errors
/// As [`publish`].
pub fn publish_parts_if_changed(path: &Path, parts: &[&[u8]]) -> io::Result<bool> {
    let same = open_regular(path).is_ok_and(|file| holds(file, parts).unwrap_or(false));
    if !same {
        publish_parts(path, parts)?;
    }
    Ok(!same)
}

fn holds(file: File, parts: &[&[u8]]) -> io::Result<bool> {
    let size: u64 = parts.iter().map(|part| part.len() as u64).sum();
    if file.metadata()?.len() != size {
        return Ok(false);
    }
    let mut file = BufReader::with_capacity(PIECE, file);
    for part in parts {
        let mut rest = *part;
        while !rest.is_empty() {
            let read = file.fill_buf()?;
            let n = read.len().min(rest.len());
            if n == 0 || read[..n] != rest[..n] {
                return Ok(false);
            }
            file.consume(n);
            rest = &rest[n..];
        }
    }
    Ok(true)
}

/// Puts `bytes` where a user asked for them. A regular file, or none, is published as by
/// [`publish`], but in a directory that is there; a link, a FIFO or a device is written through.
///
/// # Errors
/// The message names the path; the kind is that of the cause, so that a closed pipe is known.
pub fn publish_to(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let cannot =
        |e: io::Error| io::Error::new(e.kind(), format!("cannot write {}: {e}", path.display()));
    // The parent of a bare name would be empty.
    let path = Path::new(".").join(path);
    match std::fs::symlink_metadata(&path) {
        Ok(meta) if !meta.is_file() => write_through(&path, meta.is_symlink(), bytes),
        _ => in_present_dir(&path).and_then(|()| replace(&path, &[bytes])),
    }
    .map_err(cannot)
}

fn in_present_dir(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(dir) if !dir.is_dir() => {
            let what = format!("there is no directory {}", dir.display());
            Err(io::Error::new(io::ErrorKind::NotFound, what))
        }
        _ => Ok(()),
    }
}

/// A link may lead to a file that is not there yet; anything else is there already.
fn write_through(path: &Path, create: bool, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(create).truncate(true).mode(0o600).open(path)?.write_all(bytes)
}

fn replace(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other("not a path of a file"));
    };
    if !dir.exists() {
        private_dir(dir)?;
    }
    let n = COUNTER.fetch_add(1, Ordering::Relaxed);
    let temp = dir.join(format!(".{}.tmp.{}.{n}", name.to_string_lossy(), std::process::id()));
    let written = write_new(&temp, parts).and_then(|()| std::fs::rename(&temp, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temp);
    }
    written?;
    File::open(dir)?.sync_all()
}

fn write_new(temp: &Path, parts: &[&[u8]]) -> io::Result<()> {
    // A file left by a killed process of the same id would make `create_new` fail for ever.
    let _ = std::fs::remove_file(temp);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(temp)?;
    let mut file = BufWriter::with_capacity(PIECE, file);
    for part in parts {
        file.write_all(part)?;
    }
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
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
    fn a_target_that_is_no_regular_file_is_written_through() {
        let tmp = tempfile::tempdir().expect("a directory");
        let [real, link, fifo] = ["real", "link", "fifo"].map(|name| tmp.path().join(name));
        std::os::unix::fs::symlink("real", &link).expect("a link");
        for bytes in [&b"a longer text"[..], b"new"] {
            publish_to(&link, bytes).expect("written");
            assert_eq!(std::fs::read(&real).expect("read"), bytes);
        }
        assert!(std::fs::symlink_metadata(&link).expect("there").is_symlink());

        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).expect("a FIFO");
        let read = std::thread::scope(|scope| {
            let reader = scope.spawn(|| std::fs::read(&fifo).expect("read"));
            publish_to(&fifo, b"new").expect("written");
            reader.join().expect("read")
        });
        assert_eq!(read, b"new");
        assert!(!std::fs::symlink_metadata(&fifo).expect("there").is_file());

        // By a link, so that nothing but the link is lost if this ever fails.
        let full = tmp.path().join("full");
        std::os::unix::fs::symlink("/dev/full", &full).expect("a link");
        let error = publish_to(&full, b"new").expect_err("full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("full: "), "{error}");
    }

    #[test]
    fn a_target_in_a_missing_directory_is_refused() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = tmp.path().join("missing/a.json");
        let error = publish_to(&path, b"new").expect_err("refused").to_string();
        assert!(error.contains("no directory") && error.contains("a.json"), "{error}");
        assert!(!tmp.path().join("missing").exists());
        publish_to(&tmp.path().join("a.json"), b"new").expect("published");
        assert!(publish_to(tmp.path(), b"new").is_err());
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

    #[test]
    fn parts_are_published_and_compared_as_the_whole_they_make() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = tmp.path().join("a.json");
        let long = vec![b'x'; 3 * PIECE + 1];
        let parts: [&[u8]; 4] = [b"[", &long, b"", b"]"];
        assert!(publish_parts_if_changed(&path, &parts).expect("published"));
        assert_eq!(std::fs::read(&path).expect("read"), parts.concat());
        assert!(!publish_if_changed(&path, &parts.concat()).expect("the same"));
        assert!(!publish_parts_if_changed(&path, &parts).expect("the same"));
        let other: [&[u8]; 3] = [b"[", &long, b"}"];
        assert!(publish_parts_if_changed(&path, &other).expect("published"));
        assert!(publish_parts_if_changed(&path, &other[..2]).expect("published"));
    }
}
