//! Power cuts: a file system in a file, copied while a stopped writer has it in use, mounted again.
//!
//! Invariant: the copy holds what had reached the device, which is the file; the journal replays
//! when the copy is mounted. Needs root and ext4; without them it says what is missing.
//! Deliberately absent: reordering inside of a device.

#![allow(clippy::expect_used, clippy::print_stdout, clippy::disallowed_methods)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::{Harm, SYNCED, UNSYNCED, acknowledged, acks, harm, scaled, start};
use mws_state::{StateDir, for_each_line};

#[test]
#[ignore = "the process that the other tests stop"]
fn writer() {
    common::write();
}

#[test]
fn what_was_synced_survives_a_power_cut() {
    for _ in 0..scaled(3, 20) {
        let Some((found, artifact)) = cut(SYNCED) else { return };
        assert_eq!((found, artifact), (Harm::default(), true));
    }
}

#[test]
#[ignore = "the control: fails without fsync"]
fn control_without_fsync_a_power_cut_loses() {
    let Some((found, artifact)) = cut(UNSYNCED) else { return };
    assert!(found.lost > 0 && !artifact, "the cut hurt nobody: {found:?} {artifact}");
}

/// A mounted file system, unmounted when dropped.
struct Mount(PathBuf);

impl Mount {
    fn new(image: &Path, at: PathBuf) -> Option<Self> {
        fs::create_dir_all(&at).expect("created");
        // A commit of the journal in the middle of the copy would not be a cut.
        run("mount", &["-o".as_ref(), "loop,commit=300".as_ref(), image.as_ref(), at.as_ref()])
            .then_some(Self(at))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        run("umount", &[self.0.as_ref()]);
    }
}

fn run(program: &str, args: &[&std::ffi::OsStr]) -> bool {
    let done = Command::new(program).args(args).output();
    match done {
        Ok(done) if done.status.success() => true,
        Ok(done) => {
            println!("{program}: {}", String::from_utf8_lossy(&done.stderr).trim());
            false
        }
        Err(e) => {
            println!("{program}: {e}");
            false
        }
    }
}

/// Harm to the log, and whether the artifact is whole and as new as was acknowledged; none where
/// no file system can be made.
fn cut(how: &str) -> Option<(Harm, bool)> {
    let tmp = tempfile::tempdir().expect("a directory");
    let (image, copy) = (tmp.path().join("image"), tmp.path().join("copy"));
    fs::File::create(&image).expect("created").set_len(48 << 20).expect("grown");
    let quiet = ["-q".as_ref(), "-F".as_ref(), image.as_ref()];
    let mounted =
        run("mkfs.ext4", &quiet).then(|| Mount::new(&image, tmp.path().join("before"))).flatten();
    let Some(mounted) = mounted else {
        println!("skipped: a power cut needs root, mkfs.ext4 and loop devices");
        return None;
    };
    let acks = acks(tmp.path());
    let mut writer = start(how, &mounted.0.join("state"), &acks, 88_172_645_463_325_252);
    std::thread::sleep(Duration::from_millis(700));
    stop(writer.id());
    let promised = acknowledged(&acks);
    fs::copy(&image, &copy).expect("copied");
    writer.kill().expect("killed");
    writer.wait().expect("gone");
    drop(mounted);
    let after = Mount::new(&copy, tmp.path().join("after")).expect("mounted again");
    let state = StateDir::at(after.0.join("state"));
    let mut lines = Vec::new();
    for_each_line(&state, |line| lines.push(line.to_vec()));
    let found = harm(lines.iter().map(Vec::as_slice), &promised);
    let artifact = fs::read_to_string(state.working_set()).unwrap_or_default();
    let published = artifact.trim().split_once('.').and_then(|(w, n)| Some((w, n.parse().ok()?)));
    let is_new = published.is_some_and(|(w, n): (_, u64)| promised.get(w).is_some_and(|p| n >= *p));
    println!("{how}: {promised:?} acknowledged, {} lines, {found:?}, {is_new}", lines.len());
    assert!(promised.values().all(|n| *n > 5), "the writer wrote nothing");
    Some((found, is_new))
}

/// Stops a process and waits until it has left the kernel, and with it every fsync.
fn stop(id: u32) {
    assert!(run("kill", &["-STOP".as_ref(), id.to_string().as_ref()]));
    let is_stopped = || {
        let threads = fs::read_dir(format!("/proc/{id}/task")).expect("listed");
        let state = |task: fs::DirEntry| fs::read_to_string(task.path().join("stat"));
        let all = threads.flatten().map(|task| state(task).unwrap_or_default());
        all.into_iter().all(|stat| stat.contains(") T "))
    };
    while !is_stopped() {
        std::thread::sleep(Duration::from_millis(1));
    }
}
