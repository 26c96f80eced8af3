//! `mws-index` killed at any moment, two at once, while others read what it publishes.
//!
//! Invariant: every catalog says its number in each tool; a reader must see one number in the whole
//! index, and never a smaller generation than before.
//! Deliberately absent: power loss. The full number of kills is `MWS_HEAVY`'s.

#![allow(clippy::expect_used, clippy::print_stdout, clippy::disallowed_methods)]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mws_catalog::Catalog;
use mws_search::SNAPSHOT_MAX;
use mws_state::{StateDir, publish, read_file};

const TOOLS: usize = 60;
const INDEXERS: usize = 2;

struct Shared {
    state: StateDir,
    config: String,
    /// The hash of the catalog with each number.
    hashes: Vec<u64>,
    catalog: AtomicU64,
    done: AtomicBool,
}

#[test]
fn no_reader_sees_a_bad_or_an_older_index() {
    let tmp = tempfile::tempdir().expect("a directory");
    let heavy = std::env::var_os("MWS_HEAVY").is_some();
    let wanted: usize = if heavy { 150 } else { 12 };
    let shared = Shared::new(tmp.path(), 4000);
    let (killed, loads, searches) = std::thread::scope(|scope| {
        let shared = &shared;
        let indexers = [3, 5].map(|seed| scope.spawn(move || index(shared, wanted, seed)));
        let readers = [0, 1].map(|_| scope.spawn(|| read(shared)));
        let asking = scope.spawn(|| ask(shared));
        let killed: usize = indexers.map(|one| one.join().expect("indexed")).iter().sum();
        shared.done.store(true, Ordering::Relaxed);
        let loads: u64 = readers.map(|one| one.join().expect("read")).iter().sum();
        (killed, loads, asking.join().expect("asked"))
    });
    println!("{killed} kills, {loads} loads, {searches} searches: 0 bad, 0 backwards");
    assert!(killed >= INDEXERS * wanted && loads > 50 && searches > 0, "{killed} {loads}");
    settles(&shared);
}

/// A run that nobody kills mends everything, also when the private store is damaged.
fn settles(shared: &Shared) {
    for damaged in [false, true] {
        if damaged {
            flip(&shared.state.index_dir());
        }
        shared.next_catalog();
        assert!(shared.start().wait().expect("gone").success());
        let number = shared.catalog.load(Ordering::Relaxed) as usize;
        assert_eq!(shared.load().map(|(_, hash)| hash), Some(shared.hashes[number]));
    }
}

/// Turns bits in every file that is no snapshot.
fn flip(dir: &Path) {
    for entry in fs::read_dir(dir).expect("listed").flatten() {
        let path = entry.path();
        if path.is_dir() {
            flip(&path);
        } else if path.extension().is_none_or(|extension| extension != "mwsx") {
            let mut bytes = fs::read(&path).expect("read");
            bytes.iter_mut().step_by(37).for_each(|byte| *byte ^= 0x55);
            fs::write(&path, bytes).expect("written");
        }
    }
}

impl Shared {
    fn new(dir: &Path, catalogs: usize) -> Self {
        let state = StateDir::at(dir.join("state"));
        state.create().expect("created");
        let config = dir.join("config.json");
        fs::write(&config, r#"{"search":{"vectors":false}}"#).expect("written");
        let hash = |n| Catalog::parse(catalog(n).as_bytes()).expect("a catalog").0.hash();
        let hashes = (0..catalogs).map(hash).collect();
        let config = config.display().to_string();
        let (catalog, done) = (AtomicU64::new(0), AtomicBool::new(false));
        let shared = Self { state, config, hashes, catalog, done };
        shared.next_catalog();
        shared
    }

    fn next_catalog(&self) {
        let number = self.catalog.fetch_add(1, Ordering::Relaxed) as usize + 1;
        publish(&self.state.catalog(), catalog(number).as_bytes()).expect("published");
    }

    fn program(&self) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_mws-index"));
        program.args(["--config", &self.config, "--state-dir"]).arg(self.state.root());
        program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        program
    }

    fn start(&self) -> Child {
        self.program().spawn().expect("started")
    }

    /// Generation and catalog hash of what is in force.
    fn load(&self) -> Option<(u64, u64)> {
        let dir = self.state.index_dir();
        let read = |name: &str| Some(read_file(&dir.join(name), SNAPSHOT_MAX).ok()?.0);
        let loaded = mws_search::load(&read).unwrap_or_else(|e| panic!("a bad index: {e}"));
        loaded.map(|(current, index)| (current.generation, index.catalog_hash()))
    }
}

fn catalog(number: usize) -> String {
    let tool = |t| format!(r#"{{"name":"tool_{t}","description":"number {number} of {t}"}}"#);
    let tools: Vec<String> = (0..TOOLS).map(tool).collect();
    format!(r#"{{"tools":[{}]}}"#, tools.join(","))
}

/// Runs the program again and again until enough of its runs were killed in the middle.
fn index(shared: &Shared, wanted: usize, mut seed: u64) -> usize {
    let started = Instant::now();
    shared.start().wait().expect("gone");
    let whole = started.elapsed().min(Duration::from_millis(200));
    let mut killed = 0;
    while killed < wanted {
        shared.next_catalog();
        let mut child = shared.start();
        if !random(&mut seed).is_multiple_of(4) {
            std::thread::sleep(whole.mul_f64((random(&mut seed) % 1000) as f64 / 800.0));
            killed += usize::from(child.try_wait().expect("asked").is_none());
            child.kill().expect("killed");
        }
        child.wait().expect("gone");
    }
    killed
}

fn read(shared: &Shared) -> u64 {
    let (mut newest, mut loads) = (0, 0);
    while !shared.done.load(Ordering::Relaxed) {
        if let Some((generation, hash)) = shared.load() {
            assert!(generation >= newest, "generation {generation} after {newest}");
            assert!(shared.hashes.contains(&hash), "of a catalog that never was");
            newest = generation;
            loads += 1;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    loads
}

fn ask(shared: &Shared) -> u64 {
    let mut searches = 0;
    while !shared.done.load(Ordering::Relaxed) {
        let mut program = shared.program();
        program.args(["search", "--json", "number of tool"]);
        let done = program.stderr(Stdio::piped()).output().expect("run");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && !said.contains("damaged"), "{said}");
        searches += 1;
        std::thread::sleep(Duration::from_millis(50));
    }
    searches
}

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}
