//! Reading the files that changed, in parallel, from where the last run stopped.
//!
//! Invariant: what is stored as read is what was read: sizes and hashes come from the same open
//! file, and reading stops at the size it had when it was opened.
//! Deliberately absent: what calls mean; batches go to the one who folds them.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use crossbeam_channel::Sender;
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::names::Names;
use crate::scan::{Consumed, Tail, Window};
use crate::sighting::Batch;
use crate::sources::{Reader, Task};
use crate::state::{FileRecord, Stamp};
use crate::walk::Found;

const HEAD: usize = 4096;
const FIRST_LINE_MAX: usize = 1 << 20;

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

/// Bytes of files whose results are sent together: waking who takes them costs more than reading a
/// small file.
const TOGETHER: u64 = 4 << 20;

/// Reads all `jobs`, the largest files first, and sends the results to `done`.
///
/// # Errors
/// When the threads cannot be started.
pub(crate) fn read_all(
    mut jobs: Vec<Job>,
    names: &Names,
    threads: Option<u16>,
    done: Sender<Vec<(Found, io::Result<FileRead>)>>,
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
        // A bridge hands out one group at a time and so keeps the order.
        together(jobs).into_iter().par_bridge().for_each_init(Window::new, |window, jobs| {
            let read = |job: Job| {
                let read = read_file(&job, names, window);
                (job.found, read)
            };
            let _ = done.send(jobs.into_iter().map(read).collect());
        });
    });
    Ok(())
}

fn together(jobs: Vec<Job>) -> Vec<Vec<Job>> {
    let (mut groups, mut size) = (Vec::<Vec<Job>>::new(), TOGETHER);
    for job in jobs {
        if size >= TOGETHER {
            groups.push(Vec::new());
            size = 0;
        }
        size += job.found.stamp.size;
        if let Some(group) = groups.last_mut() {
            group.push(job);
        }
    }
    groups
}

/// Reads one file.
///
/// # Errors
/// When it cannot be opened or read.
pub(crate) fn read_file(job: &Job, names: &Names, window: &mut Window) -> io::Result<FileRead> {
    let mut file = File::open(&job.found.path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("not a regular file any more"));
    }
    let (stamp, source) = (Stamp::of(&meta), job.found.source);
    let compressed = job.found.path.extension() == Some(OsStr::new("zst"));
    let head = read_some_at(&file, 0, HEAD)?;
    let resume = match &job.record {
        Some(record) => resume_point(&file, record, &head, stamp.size)?,
        None => None,
    };
    // A compressed file is read as a whole or, when it only moved, not at all.
    let resume = resume.filter(|(offset, _)| !compressed || *offset == stamp.size);
    let before = job.record.as_ref().filter(|_| resume.is_some());
    let (from, tail) = resume.unwrap_or_default();
    if let Some(before) = before.filter(|_| compressed) {
        let record = FileRecord { stamp, root: job.found.root, ..before.clone() };
        return Ok(FileRead { record, batch: Batch::default(), bytes: 0 });
    }
    let first_line = if source.wants_first_line && from > 0 { first_line(&file)? } else { None };
    file.seek(SeekFrom::Start(from))?;
    let rest = (&file).take(stamp.size - from);
    let task = Task { path: &job.found.path, mtime: stamp.mtime(), names, first_line };
    let (consumed, batch) = if compressed {
        decompress(&task, rest, window, source.read)?
    } else {
        (source.read)(&task, &mut { rest }, window, tail)?
    };
    let offset = if compressed { stamp.size } else { from + consumed.bytes };
    let tail = if compressed { tail_at(&file, offset)? } else { consumed.tail };
    let record = FileRecord {
        stamp,
        offset,
        head: head_hash(&head, offset),
        tail: tail.hash(),
        root: job.found.root,
        source: source.code(),
        bad_lines: sum(before.map(|record| record.bad_lines), batch.bad_lines),
        salvaged: sum(before.map(|record| record.salvaged), batch.salvaged),
        link: batch.links.first().or(before.and_then(|record| record.link.as_ref())).cloned(),
    };
    Ok(FileRead { record, batch, bytes: offset - from })
}

fn sum(before: Option<u32>, more: u64) -> u32 {
    before.unwrap_or(0).saturating_add(u32::try_from(more).unwrap_or(u32::MAX))
}

/// Reads a compressed file. Where it is damaged it ends, with a damaged line.
fn decompress(
    task: &Task<'_>,
    file: impl Read,
    window: &mut Window,
    read: Reader,
) -> io::Result<(Consumed, Batch)> {
    let mut damaged = false;
    let decoder = zstd::stream::read::Decoder::new(file)?;
    let mut source = UntilDamage { decoder, damaged: &mut damaged };
    let (consumed, mut batch) = read(task, &mut source, window, Tail::default())?;
    batch.bad_lines += u64::from(damaged);
    Ok((consumed, batch))
}

struct UntilDamage<'a, R> {
    decoder: R,
    damaged: &'a mut bool,
}

impl<R: Read> Read for UntilDamage<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.decoder.read(buf) {
            // What the system did not refuse is wrong with the data.
            Err(e) if e.raw_os_error().is_none() => {
                *self.damaged = true;
                Ok(0)
            }
            result => result,
        }
    }
}

/// The first line, without its newline, unless it is absurdly long.
fn first_line(file: &File) -> io::Result<Option<Vec<u8>>> {
    let mut len = HEAD * 4;
    while len <= FIRST_LINE_MAX {
        let mut line = read_some_at(file, 0, len)?;
        if let Some(newline) = memchr::memchr(b'\n', &line) {
            line.truncate(newline);
            return Ok(Some(line));
        }
        if line.len() < len {
            break;
        }
        len *= 4;
    }
    Ok(None)
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
    let tail = tail_at(file, record.offset)?;
    Ok((tail.hash() == record.tail).then_some((record.offset, tail)))
}

fn tail_at(file: &File, offset: u64) -> io::Result<Tail> {
    let len = Tail::len_at(offset);
    Ok(Tail::of(&read_some_at(file, offset - len as u64, len)?))
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
