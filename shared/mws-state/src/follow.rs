//! Following the log: what is there, then what is added, across segments.
//!
//! Invariant: each whole line is handed out once, also while old segments are removed by
//! [`crate::remove_through`]. When somebody else takes segments away, and the log begins anew, it is
//! read anew: a line may come twice then, none is missed.
//! Deliberately absent: waiting. The caller knows how long it can.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::StateDir;
use crate::fs::{ReadError, is_at, open_regular};
use crate::log::{lines_of, segment_name, segment_numbers};

/// Reads what is added to the log, across segments.
#[derive(Debug)]
pub struct Follower {
    dir: PathBuf,
    number: u64,
    /// Stays open, so that no other file gets its inode number, and locked, so that neither it nor
    /// what follows is removed.
    file: Option<File>,
    /// Behind the last line that was handed out.
    offset: u64,
    unreadable: u64,
    /// The current segment cannot be read, which was said.
    complained: bool,
}

impl Follower {
    /// Hands out every line there is, the earlier version's first, and continues behind them.
    ///
    /// # Errors
    /// When the directory of the log cannot be listed.
    pub fn from_start(state: &StateDir, mut each: impl FnMut(&[u8])) -> io::Result<Self> {
        let dir = state.events_dir();
        let number = segment_numbers(&dir)?.first().copied().unwrap_or(1);
        let mut follower =
            Self { dir, number, file: None, offset: 0, unreadable: 0, complained: false };
        let calls = state.calls();
        let read = open_regular(&calls).and_then(|file| Ok(lines_of(file, false, &mut each)?));
        follower.note(&calls, read);
        follower.complained = false;
        follower.poll(each)?;
        Ok(follower)
    }

    /// Hands out the lines added since the last call.
    ///
    /// # Errors
    /// As [`Follower::from_start`].
    pub fn poll(&mut self, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        loop {
            // Listed before reading: a segment is left only when a newer one was there already,
            // so nothing that is still being appended to the older one is missed.
            let numbers = segment_numbers(&self.dir)?;
            let path = self.dir.join(segment_name(self.number));
            let read = self.read_on(&path, &mut each);
            self.note(&path, read);
            let newer = numbers.iter().find(|n| **n > self.number);
            let anew = numbers.first().filter(|_| !numbers.contains(&self.number));
            match newer.or(anew) {
                Some(next) => {
                    // The next one is held before this one is let go.
                    let file = open_held(&self.dir.join(segment_name(*next))).ok();
                    (self.number, self.file, self.offset) = (*next, file, 0);
                    self.complained = false;
                }
                None => return Ok(()),
            }
        }
    }

    /// Files that could not be read since the last call; a warning has named each.
    pub fn take_unreadable(&mut self) -> u64 {
        std::mem::take(&mut self.unreadable)
    }

    fn note(&mut self, path: &Path, read: Result<(), ReadError>) {
        match read {
            Ok(()) | Err(ReadError::Missing) => self.complained = false,
            Err(e) if !self.complained => {
                tracing::warn!("Cannot read {}: {e}.", path.display());
                self.unreadable += 1;
                self.complained = true;
            }
            Err(_) => {}
        }
    }

    fn read_on(&mut self, path: &Path, each: &mut impl FnMut(&[u8])) -> Result<(), ReadError> {
        let is_moved = self.file.as_ref().is_some_and(|file| !is_at(file, path));
        self.read_open(each)?;
        if is_moved {
            self.file = None;
        }
        if self.file.is_none() {
            self.file = Some(open_held(path)?);
            self.offset = 0;
            self.read_open(each)?;
        }
        Ok(())
    }

    /// Reads the open file from the last whole line on.
    fn read_open(&mut self, each: &mut impl FnMut(&[u8])) -> Result<(), ReadError> {
        let Some(file) = &mut self.file else { return Ok(()) };
        if file.metadata()?.len() < self.offset {
            self.offset = 0;
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let offset = &mut self.offset;
        lines_of(file, false, &mut |line: &[u8]| {
            *offset += line.len() as u64 + 1;
            each(line);
        })?;
        Ok(())
    }
}

/// A lock that cannot be had is that of a removal, which an open file survives.
fn open_held(path: &Path) -> Result<File, ReadError> {
    let file = open_regular(path)?;
    let _ = file.try_lock_shared();
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Appender, now};
    use mws_event::DAY_MS;

    struct Lab {
        _tmp: tempfile::TempDir,
        state: StateDir,
        log: Appender,
    }

    impl Lab {
        fn new() -> Self {
            let tmp = tempfile::tempdir().expect("a directory");
            let state = StateDir::at(tmp.path());
            let log = Appender::open(&state).expect("opened");
            Self { _tmp: tmp, state, log }
        }

        /// Each day has a segment of its own.
        fn append(&mut self, line: &str, day: i64) {
            let then = now().plus_ms(day * DAY_MS);
            self.log.append(format!("{line}\n").as_bytes(), then).expect("appended");
        }

        fn segment(&self, number: u64) -> PathBuf {
            self.state.events_dir().join(segment_name(number))
        }

        fn follow(&self) -> (Follower, Vec<String>) {
            let mut seen = Vec::new();
            let follower = Follower::from_start(&self.state, |line| seen.push(text(line)));
            (follower.expect("read"), seen)
        }
    }

    fn text(line: &[u8]) -> String {
        String::from_utf8_lossy(line).into_owned()
    }

    fn poll(follower: &mut Follower) -> Vec<String> {
        let mut seen = Vec::new();
        follower.poll(|line| seen.push(text(line))).expect("polled");
        seen
    }

    #[test]
    fn from_the_start_all_is_handed_out_and_then_what_is_added() {
        let mut lab = Lab::new();
        crate::publish(&lab.state.calls(), b"old\n").expect("written");
        lab.append("1", 0);
        lab.append("2", 1);
        let (mut follower, seen) = lab.follow();
        assert_eq!(seen, ["old", "1", "2"]);
        lab.append("3", 1);
        assert_eq!(poll(&mut follower), ["3"]);
    }

    #[test]
    fn each_new_line_is_seen_once_across_segments() {
        let mut lab = Lab::new();
        lab.append("0", 0);
        let (mut follower, _) = lab.follow();
        lab.append("1", 0);
        assert_eq!(poll(&mut follower), ["1"]);
        lab.append("2", 1);
        lab.append("3", 2);
        assert_eq!(poll(&mut follower), ["2", "3"]);
        assert!(poll(&mut follower).is_empty());
    }

    #[test]
    fn half_a_line_waits_and_is_forgotten_when_it_is_rolled_back() {
        let mut lab = Lab::new();
        lab.append("1", 0);
        let (mut follower, _) = lab.follow();
        let size = std::fs::metadata(lab.segment(1)).expect("there").len();
        let open = || std::fs::OpenOptions::new().append(true).open(lab.segment(1));
        io::Write::write_all(&mut open().expect("opened"), b"{\"ha").expect("torn");
        assert!(poll(&mut follower).is_empty());
        open().expect("opened").set_len(size).expect("rolled back");
        assert!(poll(&mut follower).is_empty());
        lab.append("2", 0);
        assert_eq!(poll(&mut follower), ["2"]);
    }

    #[test]
    fn a_log_that_begins_anew_is_read_anew() {
        let mut lab = Lab::new();
        for day in 0..3 {
            lab.append("a line of some length", day);
        }
        let (mut follower, seen) = lab.follow();
        assert_eq!(seen.len(), 3);
        for number in 1..=3 {
            std::fs::remove_file(lab.segment(number)).expect("removed");
        }
        assert!(poll(&mut follower).is_empty());
        lab.append("anew", 0);
        assert_eq!(poll(&mut follower), ["anew"]);
        std::fs::remove_file(lab.segment(1)).expect("removed");
        lab.append("longer than what was there", 0);
        assert_eq!(poll(&mut follower), ["longer than what was there"]);
    }

    #[test]
    fn a_segment_that_was_cut_or_moved_is_followed() {
        let mut lab = Lab::new();
        lab.append("a line of some length", 0);
        let (mut follower, _) = lab.follow();
        std::fs::File::create(lab.segment(1)).expect("cut");
        lab.append("short", 0);
        assert_eq!(poll(&mut follower), ["short"]);
        lab.append("last words", 0);
        std::fs::rename(lab.segment(1), lab.state.root().join("aside")).expect("moved");
        lab.append("first words", 0);
        assert_eq!(poll(&mut follower), ["last words", "first words"]);
    }

    #[test]
    fn an_unreadable_file_is_counted_once_and_passed() {
        let mut lab = Lab::new();
        lab.append("1", 0);
        lab.append("2", 1);
        lab.append("3", 2);
        std::fs::remove_file(lab.segment(2)).expect("removed");
        rustix::fs::mkfifoat(rustix::fs::CWD, lab.segment(2), 0o600.into()).expect("a FIFO");
        std::fs::create_dir(lab.state.calls()).expect("a directory in the way");
        let (mut follower, seen) = lab.follow();
        assert_eq!((seen, follower.take_unreadable()), (vec!["1".into(), "3".into()], 2));
        std::fs::create_dir(lab.segment(4)).expect("a directory in the way");
        for unreadable in [1, 0] {
            assert!(poll(&mut follower).is_empty());
            assert_eq!(follower.take_unreadable(), unreadable);
        }
        std::fs::create_dir(lab.segment(6)).expect("a directory in the way");
        crate::publish(&lab.segment(5), b"5\n").expect("written");
        assert_eq!(poll(&mut follower), ["5"]);
    }
}
