//! Full disks and limits of file sizes: calls go on, and so does logging once there is space.
//!
//! Invariant: only the state directory is on the small disk, which needs root; without it the test
//! says so. Deliberately absent: power cuts, which `mws-state` tests.

use mws_tests::lab::{Lab, Proxy, bin, eventually};
use mws_tests::peer::Peer;
use mws_tests::script::{Era, Script};
use mws_tests::stub::Stub;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

#[test]
fn a_full_disk_stops_no_call_and_logging_resumes() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::facing(&stub.url);
    let Some(disk) = Disk::mount(lab.state("")) else { return };
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    let call = || {
        let answer = peer.call("apple_pick", &json!({}));
        assert_eq!(answer["content"][0]["text"], "plain answer", "{}", proxy.stderr());
    };
    let recorded = || lab.calls("apple_pick").len();
    call();
    assert!(eventually(Duration::from_secs(3), || recorded() == 1), "{}", proxy.stderr());
    for round in 1..=3 {
        disk.fill();
        let before = recorded();
        for _ in 0..60 {
            call();
        }
        let warned = || proxy.stderr().contains("Cannot append to the event log");
        assert!(eventually(Duration::from_secs(5), warned), "not full? {}", proxy.stderr());
        for program in ["mws-promote", "mws-index"] {
            let done = lab.run(program, &[]);
            assert!((0..=1).contains(&done.code), "{program}: {}", done.stderr);
        }
        disk.free();
        call();
        let all = || recorded() >= before + 61;
        assert!(eventually(Duration::from_secs(8), all), "round {round}: {}", recorded());
    }
    drop(proxy);
    assert_eq!(recorded(), 1 + 3 * 61);
    let report: Value =
        serde_json::from_str(&lab.run("mws-report", &["--json"]).ok().stdout).unwrap();
    let health = &report["health"];
    for figure in ["damaged_lines", "unreadable_files", "dropped_events", "missing_events"] {
        assert_eq!(health[figure], 0, "{figure}: {health}");
    }
}

#[test]
fn a_limit_of_file_sizes_stops_no_call() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::facing(&stub.url);
    let mut command = lab.command("bash");
    command.args(["-c", "ulimit -f 16; exec \"$0\" --listen 127.0.0.1:0"]);
    command.arg(bin("mws-proxy"));
    let proxy = Proxy::start(command);
    let peer = Peer::stateless(&proxy.url);
    let warned = || proxy.stderr().contains("Cannot append to the event log");
    for n in 0..2_000 {
        let answer = peer.call("apple_pick", &json!({}));
        assert_eq!(answer["content"][0]["text"], "plain answer", "{n}: {}", proxy.stderr());
        if warned() {
            break;
        }
    }
    assert!(eventually(Duration::from_secs(5), warned), "the limit was not met");
    peer.call("apple_pick", &json!({}));
    let log = std::fs::read_to_string(lab.state("events/events-000001.jsonl")).unwrap();
    assert!(log.ends_with('\n') && log.len() <= 16 * 1024, "{} bytes", log.len());
    assert!(log.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
}

/// A file system of one megabyte, unmounted when dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(at: PathBuf) -> Option<Self> {
        std::fs::create_dir_all(&at).unwrap();
        let options = ["-t", "tmpfs", "-o", "size=1m,mode=700", "tmpfs"];
        let mounted = Command::new("mount").args(options).arg(&at).output();
        if mounted.as_ref().is_ok_and(|done| done.status.success()) {
            return Some(Self(at));
        }
        println!("skipped: a small disk needs root and mount: {mounted:?}");
        None
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// Leaves no byte, so that the next write is a short one or none.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.filler()).unwrap();
        while file.write(&[0; 4096]).is_ok_and(|n| n > 0) {}
    }

    fn free(&self) {
        std::fs::remove_file::<&Path>(&self.filler()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A program that just ended may still be in there.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
