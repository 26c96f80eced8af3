//! Appending whole lines to the newest segment of the log.
//!
//! Invariant: while the lock is held the newest segment ends with a newline before and after, so
//! no later record is glued to a torn one. A short write is rolled back.
//! Deliberately absent: batching and ids ([`crate::Recorder`]), and fsync on each append.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mws_event::{DAY_MS, Event, Timestamp};
use rustix::fs::OFlags;

use crate::StateDir;
use crate::fs::is_at;
use crate::log::{segment_name, segment_numbers};

const SEGMENT_MAX: u64 = 8 * 1024 * 1024;
/// Looked at at once for the last newline.
const TAIL_BLOCK: u64 = 4096;
const LOCK_WAIT: Duration = Duration::from_secs(2);

/// An open end of the log.
#[derive(Debug)]
pub struct Appender {
    dir: PathBuf,
    lock: File,
    segment: Option<(u64, File)>,
}

impl Appender {
    /// Opens the log for appending; creates the state directory if needed.
    ///
    /// # Errors
    /// When the directory cannot be used; see [`StateDir::create`].
    pub fn open(state: &StateDir) -> io::Result<Self> {
        state.create()?;
        let dir = state.events_dir();
        let mut options = OpenOptions::new();
        let path = dir.join(".lock");
        let lock = options.create(true).truncate(false).write(true).mode(0o600).open(path)?;
        Ok(Self { dir, lock, segment: None })
    }

    /// Appends `lines`, which must be whole lines, in one write.
    ///
    /// # Errors
    /// After an error nothing of `lines` is in the log; the caller may try again.
    pub fn append(&mut self, lines: &[u8], now: Timestamp) -> io::Result<()> {
        self.wait_for_lock()?;
        let written = self.append_locked(lines, now);
        self.lock.unlock()?;
        if written.is_err() {
            self.segment = None;
        }
        written
    }

    /// Makes what was appended durable.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn sync(&self) -> io::Result<()> {
        self.segment.as_ref().map_or(Ok(()), |(_, file)| file.sync_data())
    }

    /// A holder that is stopped must not stop everybody else for good.
    fn wait_for_lock(&self) -> io::Result<()> {
        let until = Instant::now() + LOCK_WAIT;
        loop {
            match self.lock.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::Error(e)) => return Err(e),
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(io::Error::other("the log's lock is held by another process"));
                }
            }
        }
    }

    fn append_locked(&mut self, lines: &[u8], now: Timestamp) -> io::Result<()> {
        let file = self.current(now)?;
        let size = repair_tail(file)?;
        let written = file.write_all(lines);
        if written.is_err() {
            file.set_len(size)?;
        }
        written
    }

    /// The segment to write to; a new one when the newest is full or from another day.
    fn current(&mut self, now: Timestamp) -> io::Result<&mut File> {
        let newest = newest_fit(&self.dir, &segment_numbers(&self.dir)?);
        let mut number = newest.max(1);
        let path = self.dir.join(segment_name(number));
        if !matches!(self.segment, Some((open, ref file)) if open == number && is_at(file, &path)) {
            self.segment = Some((number, self.open_segment(number)?));
        }
        if self.segment.as_ref().is_some_and(|(_, file)| is_full(file, now)) {
            number += 1;
            if let Some((_, old)) = &self.segment {
                old.sync_data()?;
            }
            self.segment = Some((number, self.open_segment(number)?));
        }
        match &mut self.segment {
            Some((_, file)) => Ok(file),
            None => Err(io::Error::other("no segment is open")),
        }
    }

    fn open_segment(&self, number: u64) -> io::Result<File> {
        let path = self.dir.join(segment_name(number));
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        let file = options.custom_flags(flags.bits() as i32).open(&path)?;
        let meta = file.metadata()?;
        if !meta.is_file() || meta.nlink() > 1 {
            let what = format!("{}: not a plain file of its own", path.display());
            return Err(io::Error::other(what));
        }
        if meta.len() == 0 {
            File::open(&self.dir)?.sync_all()?;
        }
        Ok(file)
    }
}

/// The number of the newest segment, or of the next one where somebody put something else there.
fn newest_fit(dir: &Path, numbers: &[u64]) -> u64 {
    let Some(newest) = numbers.last().copied() else { return 0 };
    let meta = std::fs::symlink_metadata(dir.join(segment_name(newest)));
    let fit = meta.is_ok_and(|meta| meta.is_file() && meta.nlink() == 1);
    if fit { newest } else { newest + 1 }
}

/// Cuts a torn last line off, or ends it when only its newline is missing; the size after. Its
/// writer is dead, since the lock is held.
fn repair_tail(file: &mut File) -> io::Result<u64> {
    let size = file.metadata()?.len();
    let mut last = [b'\n'];
    if size > 0 {
        file.read_exact_at(&mut last, size - 1)?;
    }
    if last == *b"\n" {
        return Ok(size);
    }
    let (mut tail, mut from) = (Vec::new(), size);
    let newline = loop {
        if from == 0 {
            break None;
        }
        let len = from.min(TAIL_BLOCK);
        let mut block = vec![0; len as usize];
        from -= len;
        file.read_exact_at(&mut block, from)?;
        block.append(&mut tail);
        tail = block;
        if let Some(at) = tail.iter().rposition(|byte| *byte == b'\n') {
            break Some(at);
        }
    };
    let torn = &tail[newline.map_or(0, |at| at + 1)..];
    if Event::parse(torn).is_ok() {
        file.write_all(b"\n")?;
        return Ok(size + 1);
    }
    let size = size - torn.len() as u64;
    file.set_len(size)?;
    Ok(size)
}

fn is_full(file: &File, now: Timestamp) -> bool {
    file.metadata().is_ok_and(|meta| {
        let day = (meta.mtime() * 1000).div_euclid(DAY_MS);
        meta.len() >= SEGMENT_MAX || (meta.len() > 0 && day < now.day())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::now;

    fn lab() -> (tempfile::TempDir, StateDir) {
        let tmp = tempfile::tempdir().expect("a directory");
        let state = StateDir::at(tmp.path().join("state"));
        (tmp, state)
    }

    #[test]
    fn a_torn_tail_costs_itself_only() {
        const WHOLE: &str = r#"{"ts":"2026-03-01T00:00:00.000Z","tool":"a","ok":true}"#;
        let long = format!("{{\"to{}", "x".repeat(9000));
        for (torn, left) in [("{\"to", ""), (&long, ""), ("\0\0", ""), (WHOLE, WHOLE)] {
            for before in ["", "{\"a\":1}\n"] {
                let (_tmp, state) = lab();
                let mut log = Appender::open(&state).expect("opened");
                log.append(before.as_bytes(), now()).expect("appended");
                let path = state.events_dir().join(segment_name(1));
                let mut file = OpenOptions::new().append(true).open(&path).expect("opened");
                file.write_all(torn.as_bytes()).expect("torn");
                log.append(b"{\"b\":2}\n", now()).expect("appended");
                let text = std::fs::read_to_string(&path).expect("read");
                let end = if left.is_empty() { "" } else { "\n" };
                assert_eq!(text, format!("{before}{left}{end}{{\"b\":2}}\n"), "{torn:.9}");
            }
        }
    }

    #[test]
    fn a_new_day_and_a_full_segment_start_a_new_one() {
        let (_tmp, state) = lab();
        let mut log = Appender::open(&state).expect("opened");
        log.append(b"1\n", now()).expect("appended");
        log.append(b"2\n", now().plus_ms(DAY_MS)).expect("appended");
        let mut big = vec![b'x'; usize::try_from(SEGMENT_MAX).expect("fits")];
        big.push(b'\n');
        log.append(&big, now()).expect("appended");
        log.append(b"3\n", now()).expect("appended");
        assert_eq!(segment_numbers(&state.events_dir()).expect("listed"), [1, 2, 3]);
    }

    #[test]
    fn a_removed_or_renamed_segment_is_not_written_to_in_the_dark() {
        let (_tmp, state) = lab();
        let mut log = Appender::open(&state).expect("opened");
        log.append(b"1\n", now()).expect("appended");
        let path = state.events_dir().join(segment_name(1));
        std::fs::remove_file(&path).expect("removed");
        log.append(b"2\n", now()).expect("appended");
        assert_eq!(std::fs::read(&path).expect("read"), b"2\n");
        std::fs::rename(&path, state.root().join("aside")).expect("renamed");
        log.append(b"3\n", now()).expect("appended");
        assert_eq!(std::fs::read(&path).expect("read"), b"3\n");
    }

    #[test]
    fn something_else_in_the_place_of_the_newest_segment_is_passed_by() {
        let (_tmp, state) = lab();
        let mut log = Appender::open(&state).expect("opened");
        log.append(b"1\n", now()).expect("appended");
        let odd = state.events_dir().join(segment_name(2));
        std::os::unix::fs::symlink("/dev/null", &odd).expect("a link");
        log.append(b"2\n", now()).expect("appended");
        let text = std::fs::read(state.events_dir().join(segment_name(3))).expect("read");
        assert_eq!(text, b"2\n");
    }

    #[test]
    fn two_appenders_never_tear_each_other() {
        let (_tmp, state) = lab();
        let line = [vec![b'a'; 5000], vec![b'\n']].concat();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut log = Appender::open(&state).expect("opened");
                    for _ in 0..200 {
                        log.append(&line, now()).expect("appended");
                    }
                });
            }
        });
        let bytes = std::fs::read(state.events_dir().join(segment_name(1))).expect("read");
        assert_eq!(bytes, line.repeat(400));
    }
}
