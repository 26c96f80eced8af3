//! Readers of a file that is published again and again.
//!
//! Invariant: an artifact is its number, again and again; a reader must see one number in it, and
//! never a smaller one than before.
//! Deliberately absent: kills and power cuts, see `power.rs` and the programs that publish.

#![allow(clippy::expect_used, clippy::print_stdout, clippy::disallowed_methods)]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use mws_state::{Watched, publish};

const REPEATS: usize = 4000;

#[test]
fn readers_see_whole_artifacts_in_order() {
    let (bad, seen) = read_while(300, |path, bytes| publish(path, bytes).expect("published"));
    println!("{seen} versions seen, {bad} bad");
    assert!(bad == 0 && seen > 50, "{bad} of {seen}");
}

#[test]
#[ignore = "the control: fails when a file is written in place"]
fn control_in_place_readers_see_half() {
    let (bad, _) = read_while(3_000, |path, bytes| fs::write(path, bytes).expect("written"));
    assert!(bad > 0, "no reader saw half a file");
}

/// Bad reads and good ones while the artifact is published that many times.
fn read_while(times: usize, publish: impl Fn(&Path, &[u8])) -> (u64, u64) {
    let tmp = tempfile::tempdir().expect("a directory");
    let (path, done) = (tmp.path().join("artifact"), AtomicBool::new(false));
    let (path, done) = (&path, &done);
    std::thread::scope(|scope| {
        let readers = [(), ()].map(|()| scope.spawn(|| read(path, done)));
        for number in 1..=times {
            publish(path, format!("{number} ").repeat(REPEATS).as_bytes());
        }
        done.store(true, Ordering::Relaxed);
        let sums = readers.map(|reader| reader.join().expect("read"));
        sums.iter().fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    })
}

fn read(path: &Path, done: &AtomicBool) -> (u64, u64) {
    let mut watched = Watched::new(path.to_owned(), 1 << 20);
    let (mut bad, mut good, mut newest) = (0, 0, 0);
    while !done.load(Ordering::Relaxed) {
        match watched.refresh(number) {
            mws_state::WatchedState::Same => std::thread::yield_now(),
            mws_state::WatchedState::Rejected(_) => bad += 1,
            mws_state::WatchedState::Changed => {
                let now = watched.get().map_or(0, |number| **number);
                assert!(now >= newest, "{now} after {newest}");
                newest = now;
                good += 1;
            }
        }
    }
    (bad, good)
}

fn number(bytes: &[u8]) -> Result<u64, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    let numbers: Vec<&str> = text.split_terminator(' ').collect();
    let first = numbers.first().and_then(|first| first.parse().ok()).ok_or("no number")?;
    let is_whole = numbers.len() == REPEATS && numbers.iter().all(|one| *one == numbers[0]);
    if is_whole { Ok(first) } else { Err("half".into()) }
}
