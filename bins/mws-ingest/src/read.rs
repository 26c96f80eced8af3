//! Reading the files that changed, in parallel, from where the last run stopped.
//!
//! Invariant: what is stored as read is what was read: sizes and hashes come from the same open
//! file, and reading stops at the size it had when it was opened.
//! Deliberately absent: what calls mean; batches go to the one who folds them.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use crossbeam_channel::Sender;
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::names::Names;
use crate::scan::{Tail, Window};
use crate::sighting::Batch;
use crate::sources::Task;
use crate::state::{FileRecord, Stamp};
use crate::walk::Found;

const HEAD: usize = 4096;

/// A file to read, and how far it was read before.
#[derive(Debug)]
pub(crate) struct Job {
    /// The file.
    pub(crate) found: Found,
    /// What is known of it, or of the one it seems to have been.
    pub(crate) record: Option<FileRecord>,
}

/// A file that was read.
#[derive(Debug)]
pub(crate) struct FileRead {
    /// How far.
    pub(crate) record: FileRecord,
    /// What it shows.
    pub(crate) batch: Batch,
    /// Bytes consumed in this run.
    pub(crate) bytes: u64,
}

/// Reads all `jobs`, the largest files first, and sends each result to `done`.
///
/// # Errors
/// When the threads cannot be started.
pub(crate) fn read_all(
    mut jobs: Vec<Job>,
    names: &Names,
    threads: Option<u16>,
    done: Sender<(Found, io::Result<FileRead>)>,
) -> Result<(), String> {
    jobs.sort_by(|a, b| {
        let size = |job: &Job| job.found.stamp.size;
        size(b).cmp(&size(a)).then_with(|| a.found.path.cmp(&b.found.path))
    });
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.map_or(0, usize::from))
        .build()
        .map_err(|e| format!("cannot start reading threads: {e}"))?;
    pool.install(|| {
        // A bridge hands out one file at a time and so keeps the order.
        jobs.into_iter().par_bridge().for_each_init(Window::new, |window, job| {
            let read = read_file(&job, names, window);
            let _ = done.send((job.found, read));
        });
    });
    Ok(())
}

fn read_file(job: &Job, names: &Names, window: &mut Window) -> io::Result<FileRead> {
    let mut file = File::open(&job.found.path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("not a regular file any more"));
    }
    let stamp = Stamp::of(&meta);
    let head = read_some_at(&file, 0, HEAD)?;
    let resume = match &job.record {
        Some(record) => resume_point(&file, record, &head, stamp.size)?,
        None => None,
    };
    let (from, tail) = resume.unwrap_or_default();
    file.seek(SeekFrom::Start(from))?;
    let mut rest = file.take(stamp.size - from);
    let task = Task { path: &job.found.path, mtime: stamp.mtime(), names };
    let (consumed, batch) = (job.found.source.read)(&task, &mut rest, window, tail)?;
    let offset = from + consumed.bytes;
    let record =
        FileRecord { stamp, offset, head: head_hash(&head, offset), tail: consumed.tail.hash() };
    Ok(FileRead { record, batch, bytes: consumed.bytes })
}

/// Where to go on, when the file still begins and goes on as it did up to there.
fn resume_point(
    file: &File,
    record: &FileRecord,
    head: &[u8],
    size: u64,
) -> io::Result<Option<(u64, Tail)>> {
    if record.offset > size || head_hash(head, record.offset) != record.head {
        return Ok(None);
    }
    let len = Tail::len_at(record.offset);
    let tail = Tail::of(&read_some_at(file, record.offset - len as u64, len)?);
    Ok((tail.hash() == record.tail).then_some((record.offset, tail)))
}

fn head_hash(head: &[u8], offset: u64) -> u64 {
    let len = usize::try_from(offset).unwrap_or(HEAD).min(head.len());
    xxh3_64(&head[..len])
}

fn read_some_at(file: &File, at: u64, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while filled < len {
        match file.read_at(&mut bytes[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
