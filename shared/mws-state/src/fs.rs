//! Careful reading: regular files only, bounded size, no links, no blocking on a FIFO.
//!
//! Invariant: [`Identity`] differs whenever a file was replaced or changed, whatever its clock.
//! Deliberately absent: caching.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// What tells one version of a file from another. Compared with `!=`, never by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    dev: u64,
    ino: u64,
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

impl Identity {
    /// The identity of an open or stat'ed file.
    pub fn of(meta: &std::fs::Metadata) -> Self {
        Self {
            dev: meta.dev(),
            ino: meta.ino(),
            size: meta.size(),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            ctime: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// Why a file was not read.
#[derive(Debug)]
pub enum ReadError {
    /// There is none.
    Missing,
    /// Not a regular file, or too large; says which.
    Unfit(String),
    /// The system refused.
    Io(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("no such file"),
            Self::Unfit(why) => f.write_str(why),
            Self::Io(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for ReadError {}

impl From<io::Error> for ReadError {
    fn from(e: io::Error) -> Self {
        if e.kind() == io::ErrorKind::NotFound { Self::Missing } else { Self::Io(e) }
    }
}

/// Reads a whole file of the state directory, at most `max` bytes.
///
/// # Errors
/// [`ReadError`]; a link, a directory, a FIFO or a larger file is [`ReadError::Unfit`].
pub fn read_file(path: &Path, max: u64) -> Result<(Vec<u8>, Identity), ReadError> {
    let file = open_regular(path)?;
    let meta = file.metadata()?;
    if meta.len() > max {
        return Err(ReadError::Unfit(format!("{} bytes, more than {max} allowed", meta.len())));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
    file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        return Err(ReadError::Unfit(format!("grew over {max} bytes while it was read")));
    }
    Ok((bytes, Identity::of(&meta)))
}

/// Opens a regular file for reading without following a link or waiting for a writer.
pub(crate) fn open_regular(path: &Path) -> Result<File, ReadError> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(ReadError::Unfit("a symbolic link, not a file".into()));
        }
        Err(e) => return Err(e.into()),
    };
    if !file.metadata()?.is_file() {
        return Err(ReadError::Unfit("not a regular file".into()));
    }
    Ok(file)
}

/// Whether `path` still leads to the open `file`, which may have been removed or moved away.
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let place = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
    let (open, there) = (file.metadata().map(place), std::fs::symlink_metadata(path).map(place));
    matches!((open, there), (Ok(open), Ok(there)) if open == there)
}
