//! Removing the oldest segments of the log.
//!
//! Invariant: what goes is a whole beginning of the log, so that the rest is as if nothing had
//! been before. The newest two segments stay, and so does everything from the first one on that a
//! [`crate::Follower`] reads or that is no plain file of ours.
//! Deliberately absent: which events are still needed. The caller knows.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mws_event::Timestamp;

use crate::fs::{ReadError, is_at, open_regular};
use crate::log::{parse_events, segment_name, segment_numbers};
use crate::{Damage, StateDir};

/// Somebody may be about to write to the newest, and to read on from the one before.
const KEPT: usize = 2;

/// A segment that nobody writes to any more.
#[derive(Debug, Clone)]
pub struct Segment {
    /// Its number; the log is read in the order of these.
    pub number: u64,
    /// Its size.
    pub bytes: u64,
    path: PathBuf,
}

/// The sealed segments except the newest two, oldest first.
///
/// # Errors
/// When the directory of the log cannot be listed.
pub fn removable(state: &StateDir) -> io::Result<Vec<Segment>> {
    let dir = state.events_dir();
    let mut numbers = segment_numbers(&dir)?;
    numbers.truncate(numbers.len().saturating_sub(KEPT));
    let segment = |number| {
        let path = dir.join(segment_name(number));
        let bytes = size(&path);
        Segment { number, bytes, path }
    };
    Ok(numbers.into_iter().map(segment).collect())
}

/// Bytes of all segments.
pub fn log_size(state: &StateDir) -> u64 {
    let dir = state.events_dir();
    let numbers = segment_numbers(&dir).unwrap_or_default();
    numbers.into_iter().map(|n| size(&dir.join(segment_name(n)))).sum()
}

fn size(path: &Path) -> u64 {
    std::fs::symlink_metadata(path).map_or(0, |meta| meta.len())
}

impl Segment {
    /// Time of its newest event; none when it has no event.
    ///
    /// # Errors
    /// When it cannot be read, or has lines of a later version, whose time is not known.
    pub fn newest(&self) -> Result<Option<Timestamp>, ReadError> {
        let (mut newest, mut damage) = (None, Damage::default());
        let file = open_regular(&self.path)?;
        parse_events(file, |event| newest = newest.max(Some(event.ts())), &mut damage)?;
        match damage.newer {
            0 => Ok(newest),
            _ => Err(ReadError::Unfit("it has lines of a later version".into())),
        }
    }
}

/// Removes the segments up to and with `number`, oldest first, as far as that is allowed; how
/// many went.
///
/// # Errors
/// When a file cannot be removed; those before it are gone.
pub fn remove_through(state: &StateDir, number: u64) -> io::Result<u64> {
    let segments = removable(state)?.into_iter().take_while(|segment| segment.number <= number);
    // All are held before the first goes: a follower holds the one it reads, so it has passed
    // every one of these.
    let held = segments.map_while(|segment| Some((hold(&segment.path)?, segment.path)));
    let held: Vec<(File, PathBuf)> = held.collect();
    for (file, path) in &held {
        if is_at(file, path) {
            std::fs::remove_file(path)?;
        }
    }
    if !held.is_empty() {
        File::open(state.events_dir())?.sync_all()?;
    }
    Ok(held.len() as u64)
}

/// The file, locked; none when somebody reads it or it is not a plain file of ours.
fn hold(path: &Path) -> Option<File> {
    let file = open_regular(path).ok()?;
    let meta = file.metadata().ok()?;
    let is_ours = meta.uid() == rustix::process::geteuid().as_raw() && meta.nlink() == 1;
    (is_ours && file.try_lock().is_ok()).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Appender, Follower, now};
    use mws_event::DAY_MS;

    /// A log of five segments of one line each.
    fn lab() -> (tempfile::TempDir, StateDir) {
        let tmp = tempfile::tempdir().expect("a directory");
        let state = StateDir::at(tmp.path());
        let mut log = Appender::open(&state).expect("opened");
        for day in 0..5 {
            let line = format!(
                "{{\"ts\":\"2026-03-0{}T00:00:00.000Z\",\"tool\":\"a\",\"ok\":true}}\n",
                day + 1
            );
            log.append(line.as_bytes(), now().plus_ms(day * DAY_MS)).expect("appended");
        }
        (tmp, state)
    }

    fn numbers(state: &StateDir) -> Vec<u64> {
        segment_numbers(&state.events_dir()).expect("listed")
    }

    #[test]
    fn the_oldest_go_and_the_newest_two_stay() {
        let (_tmp, state) = lab();
        crate::publish(&state.events_dir().join("notes.txt"), b"mine").expect("written");
        assert_eq!(removable(&state).expect("listed").len(), 3);
        assert_eq!(remove_through(&state, 1).expect("removed"), 1);
        assert_eq!(numbers(&state), [2, 3, 4, 5]);
        assert_eq!(remove_through(&state, 99).expect("removed"), 2);
        assert_eq!(numbers(&state), [4, 5]);
        assert_eq!(remove_through(&state, 99).expect("nothing to do"), 0);
        assert!(state.events_dir().join("notes.txt").exists());
        let mut log = Appender::open(&state).expect("opened");
        log.append(b"6\n", now().plus_ms(6 * DAY_MS)).expect("appended");
        assert_eq!(numbers(&state), [4, 5, 6]);
    }

    #[test]
    fn what_is_not_a_plain_file_of_ours_ends_the_removing() {
        let (tmp, state) = lab();
        let second = state.events_dir().join(segment_name(2));
        std::fs::hard_link(&second, tmp.path().join("kept by somebody")).expect("linked");
        assert_eq!(remove_through(&state, 3).expect("removed"), 1);
        std::fs::remove_file(&second).expect("removed");
        std::os::unix::fs::symlink("/etc/hostname", &second).expect("a link");
        assert_eq!(remove_through(&state, 3).expect("nothing"), 0);
        assert_eq!(numbers(&state), [2, 3, 4, 5]);
    }

    #[test]
    fn a_follower_keeps_what_it_has_not_read_and_misses_nothing() {
        let (_tmp, state) = lab();
        for number in 2..=5 {
            let name = segment_name(number);
            std::fs::rename(state.events_dir().join(&name), state.root().join(name))
                .expect("moved");
        }
        let mut seen = 0;
        let mut follower = Follower::from_start(&state, |_| seen += 1).expect("read");
        for number in 2..=5 {
            let name = segment_name(number);
            std::fs::rename(state.root().join(&name), state.events_dir().join(name))
                .expect("moved");
        }
        assert_eq!(remove_through(&state, 3).expect("nothing"), 0);
        follower.poll(|_| seen += 1).expect("polled");
        assert_eq!(seen, 5);
        assert_eq!(remove_through(&state, 3).expect("removed"), 3);
        follower.poll(|_| seen += 1).expect("polled");
        let mut log = Appender::open(&state).expect("opened");
        log.append(b"6\n", now().plus_ms(6 * DAY_MS)).expect("appended");
        follower.poll(|_| seen += 1).expect("polled");
        assert_eq!(seen, 6);
    }

    #[test]
    fn the_newest_event_is_found_and_a_later_version_is_not_guessed() {
        let (_tmp, state) = lab();
        let newest = |n: usize| removable(&state).expect("listed")[n].newest();
        assert_eq!(newest(1).expect("read").map(|ts| ts.date()), Some("2026-03-02".into()));
        crate::publish(&state.events_dir().join(segment_name(1)), b"{\"v\":9}\n").expect("written");
        assert!(newest(0).is_err());
        crate::publish(&state.events_dir().join(segment_name(1)), b"damaged\n").expect("written");
        assert_eq!(newest(0).expect("read"), None);
    }
}
