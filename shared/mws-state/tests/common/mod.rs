//! Processes that write to a log until they are killed, and what they may say was written.
//!
//! Invariant: a writer notes a number as acknowledged after the log has taken the event, never
//! before, in a file of its own that is outside of what is tested.
//! Deliberately absent: what is asserted; each test does that.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "each test program takes its part of it"
)]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use mws_event::LINE_MAX;
use mws_state::{Appender, StateDir, now, publish, writer_id};

const ROLE: &str = "MWS_TEST_WRITER";

/// How a writer appends.
pub const LOCKED: &str = "locked";
/// Without lock, repair and roll-back.
pub const PLAIN: &str = "plain";
/// Acknowledged when it is on disk; publishes an artifact too.
pub const SYNCED: &str = "synced";
/// The same, acknowledged before it is on disk.
pub const UNSYNCED: &str = "unsynced";

/// `small`, or `heavy` when `MWS_HEAVY` asks for it.
pub fn scaled(small: usize, heavy: usize) -> usize {
    if std::env::var_os("MWS_HEAVY").is_some() { heavy } else { small }
}

/// Starts this test program again as a writer; its tests have one named `writer` that calls [`write`].
pub fn start(how: &str, state: &Path, acks: &Path, seed: u64) -> Child {
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    program.args(["--exact", "writer", "--ignored", "--quiet"]);
    program.env(ROLE, how).env("MWS_TEST_STATE", state).env("MWS_TEST_ACKS", acks);
    program.env("MWS_TEST_SEED", seed.to_string());
    program.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().expect("started")
}

/// Writes until killed, when this process was started as a writer.
pub fn write() {
    let Ok(how) = std::env::var(ROLE) else { return };
    let path = |name| PathBuf::from(std::env::var_os(name).expect("a path"));
    let state = StateDir::at(path("MWS_TEST_STATE"));
    let mut seed = std::env::var("MWS_TEST_SEED").expect("a seed").parse().expect("a number");
    let mut ids = writer_id();
    let acks = path("MWS_TEST_ACKS").join(ids.clone().next_id());
    let mut acks = OpenOptions::new().create(true).append(true).open(acks).expect("opened");
    let mut log = Appender::open(&state).expect("opened");
    let plain = || {
        let path = state.events_dir().join("events-000001.jsonl");
        OpenOptions::new().create(true).append(true).open(path).expect("opened")
    };
    let mut plain = (how == PLAIN).then(plain);
    loop {
        let (batch, last) = batch(&mut ids, &mut seed);
        match &mut plain {
            Some(plain) => plain.write_all(&batch).expect("appended"),
            None => log.append(&batch, now()).expect("appended"),
        }
        if how == SYNCED {
            log.sync().expect("synced");
            publish(&state.working_set(), format!("{last}\n").as_bytes()).expect("published");
        }
        if how == UNSYNCED {
            let new = state.root().join("new");
            fs::write(&new, format!("{last}\n")).expect("written");
            fs::rename(&new, state.working_set()).expect("renamed");
        }
        acks.write_all(format!("{last}\n").as_bytes()).expect("noted");
        std::thread::sleep(Duration::from_micros(random(&mut seed) % 2000));
    }
}

/// Whole lines of different lengths, up to the longest allowed, now and then as many as the proxy
/// writes at once; and the last id among them.
fn batch(ids: &mut mws_event::WriterId, seed: &mut u64) -> (Vec<u8>, String) {
    let bytes = if random(seed).is_multiple_of(8) { 60 * 1024 } else { 1 };
    let (mut batch, mut last) = (Vec::new(), String::new());
    while batch.len() < bytes {
        last = ids.next_id();
        let head = format!(
            r#"{{"ts":"2026-03-01T00:00:00.000Z","tool":"a","via":"direct","ok":true,"ms":1,"client":"c","v":1,"id":"{last}","x":""#
        );
        let most = LINE_MAX - head.len() - 3;
        let fill = if random(seed).is_multiple_of(4) { most } else { random(seed) as usize % most };
        batch.extend_from_slice(head.as_bytes());
        batch.resize(batch.len() + fill, b'x');
        batch.extend_from_slice(b"\"}\n");
    }
    (batch, last)
}

/// The last acknowledged number of each writer.
pub fn acknowledged(acks: &Path) -> BTreeMap<String, u64> {
    let mut last = BTreeMap::new();
    for entry in fs::read_dir(acks).expect("listed") {
        let text = fs::read_to_string(entry.expect("an entry").path()).expect("read");
        // A writer killed while it notes leaves half a line.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        if let Some((writer, n)) = whole.lines().last().and_then(|id| id.split_once('.')) {
            last.insert(writer.to_owned(), n.parse().expect("a number"));
        }
    }
    last
}

/// The id in a line written by [`batch`]; none when the line is not exactly such a one.
pub fn id_of(line: &[u8]) -> Option<(String, u64)> {
    let text = std::str::from_utf8(line).ok()?;
    let rest = text.strip_prefix(r#"{"ts":"2026-03-01T00:00:00.000Z","tool":"a""#)?;
    let (_, rest) = rest.split_once(r#""id":""#)?;
    let (id, fill) = rest.split_once(r#"","x":""#)?;
    let is_whole = fill.strip_suffix("\"}")?.bytes().all(|b| b == b'x');
    let (writer, n) = id.split_once('.').filter(|_| is_whole)?;
    Some((writer.to_owned(), n.parse().ok()?))
}

/// Lost, torn and repeated.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Harm {
    pub lost: u64,
    pub damaged: u64,
    pub twice: u64,
}

/// What is wrong with these lines, given what was acknowledged.
pub fn harm<'l>(
    lines: impl IntoIterator<Item = &'l [u8]>,
    acknowledged: &BTreeMap<String, u64>,
) -> Harm {
    let mut harm = Harm::default();
    let mut seen: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for line in lines {
        match id_of(line) {
            Some((writer, n)) => seen.entry(writer).or_default().push(n),
            None => harm.damaged += 1,
        }
    }
    for numbers in seen.values_mut() {
        numbers.sort_unstable();
        let before = numbers.len();
        numbers.dedup();
        harm.twice += (before - numbers.len()) as u64;
    }
    for (writer, last) in acknowledged {
        let there = seen.get(writer).map_or(0, |all| all.iter().filter(|n| *n <= last).count());
        harm.lost += last - there as u64;
    }
    harm
}

pub fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

/// An empty directory for acknowledgements.
pub fn acks(of: &Path) -> PathBuf {
    let dir = of.join("acks");
    fs::create_dir_all(&dir).expect("created");
    dir
}
