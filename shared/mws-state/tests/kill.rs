//! Writers of the log that are killed at any moment.
//!
//! Invariant: three write at once; whenever one is killed, another takes its place.
//! Deliberately absent: power loss, see `power.rs`. The full number of kills is `MWS_HEAVY`'s.

#![allow(clippy::expect_used, clippy::print_stdout, clippy::disallowed_methods)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Harm, LOCKED, PLAIN, acknowledged, acks, harm, random, scaled, start};
use mws_state::{Follower, StateDir, for_each_line, removable, remove_through};

const WRITERS: usize = 3;

#[test]
#[ignore = "the process that the other tests kill"]
fn writer() {
    common::write();
}

#[test]
fn nothing_acknowledged_is_lost_or_glued() {
    assert_eq!(killed(LOCKED, scaled(120, 1000)), Harm::default());
}

#[test]
#[ignore = "the control: fails without lock and repair"]
fn control_a_plain_append_is_glued() {
    // A write that is cut in the middle is rare.
    let harm = (0..10).map(|_| killed(PLAIN, 400)).find(|harm| harm.damaged > 0);
    assert!(harm.is_some_and(|harm| harm.lost > 0), "the kills hurt nobody");
}

fn killed(how: &str, kills: usize) -> Harm {
    let tmp = tempfile::tempdir().expect("a directory");
    let state = StateDir::at(tmp.path().join("state"));
    let acknowledged = kill_loop(how, &state, tmp.path(), kills);
    let mut lines = Vec::new();
    assert!(for_each_line(&state, |line| lines.push(line.to_vec())).is_none());
    let found = harm(lines.iter().map(Vec::as_slice), &acknowledged);
    println!("{how}: {kills} kills, {} lines, {found:?}", lines.len());
    found
}

/// Kills `kills` writers, more where rotation has yet to happen; the last number that each one acknowledged.
fn kill_loop(how: &str, state: &StateDir, dir: &Path, kills: usize) -> BTreeMap<String, u64> {
    let acks = acks(dir);
    let mut seed = 88_172_645_463_325_252;
    let mut start = || start(how, state.root(), &acks, random(&mut seed) | 1);
    let mut writers: Vec<_> = (0..WRITERS).map(|_| start()).collect();
    let mut choice = 2_463_534_242;
    let rotates = how != PLAIN;
    for killed in 0.. {
        if killed >= kills && (!rotates || has_rotated(state)) {
            break;
        }
        assert!(killed < kills * 20, "the log is not rotated");
        std::thread::sleep(Duration::from_micros(random(&mut choice) % 20_000 + 3_000));
        let one = random(&mut choice) as usize % WRITERS;
        let mut killed = std::mem::replace(&mut writers[one], start());
        assert!(killed.try_wait().expect("asked").is_none(), "a writer ended by itself");
        killed.kill().expect("killed");
        killed.wait().expect("gone");
    }
    for mut writer in writers {
        writer.kill().expect("killed");
        writer.wait().expect("gone");
    }
    acknowledged(&acks)
}

#[test]
fn followers_miss_nothing_while_segments_are_removed() {
    let tmp = tempfile::tempdir().expect("a directory");
    let state = StateDir::at(tmp.path().join("state"));
    state.create().expect("created");
    let done = AtomicBool::new(false);
    let (state, done) = (&state, &done);
    std::thread::scope(|scope| {
        let consumers = [7, 60].map(|pause| scope.spawn(move || consume(state, done, pause)));
        let keeper = scope.spawn(|| remove(state, done));
        let acknowledged = kill_loop(LOCKED, state, tmp.path(), scaled(200, 1000));
        done.store(true, Ordering::Relaxed);
        let removed = keeper.join().expect("removed");
        assert!(removed > 0, "no segment was removed");
        for consumer in consumers {
            let lines = consumer.join().expect("read");
            let found = harm(lines.iter().map(Vec::as_slice), &acknowledged);
            println!("{} lines seen, {removed} segments removed, {found:?}", lines.len());
            assert_eq!(found, Harm::default());
        }
    });
}

/// Three times: the newest two segments are never removed.
fn has_rotated(state: &StateDir) -> bool {
    let newest = mws_state::segments(state).pop();
    newest.is_some_and(|path| path.file_name() >= Some("events-000004.jsonl".as_ref()))
}

fn consume(state: &StateDir, done: &AtomicBool, pause: u64) -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    let mut follower = Follower::from_start(state, |line| lines.push(line.to_vec())).expect("read");
    loop {
        let is_last = done.load(Ordering::Relaxed);
        follower.poll(|line| lines.push(line.to_vec())).expect("polled");
        if is_last {
            assert_eq!(follower.take_unreadable(), 0);
            return lines;
        }
        std::thread::sleep(Duration::from_millis(pause));
    }
}

fn remove(state: &StateDir, done: &AtomicBool) -> u64 {
    let mut removed = 0;
    while !done.load(Ordering::Relaxed) {
        if let Some(newest) = removable(state).expect("listed").last() {
            removed += remove_through(state, newest.number).expect("removed");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    removed
}
