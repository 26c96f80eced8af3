//! Published files with bytes changed at random: nothing crashes, and the last good one stays.
//!
//! Invariant: what is changed, and how, follows from a seed that a failure names.
//! Deliberately absent: what damage in particular means; `reload` has that. `MWS_HEAVY` asks for
//! the full number.

use mws_tests::lab::{Lab, Proxy, eventually};
use mws_tests::peer::Peer;
use mws_tests::random::Random;
use mws_tests::script::{Era, Script};
use mws_tests::stub::Stub;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// Started again with what is damaged then, after this many files.
const EACH_PROXY: usize = 60;
/// The programs read what is damaged then, after this many files.
const EACH_PROGRAMS: usize = 30;

#[test]
fn artifacts_changed_at_random_crash_nothing() {
    let heavy = std::env::var_os("MWS_HEAVY").is_some();
    let rounds = if heavy { 10_000 } else { 300 };
    let mut world = World::new();
    for seed in 1..=rounds {
        let name = world.damage(seed as u64);
        world.still_serves(seed, &name);
        if seed % EACH_PROGRAMS == 0 {
            world.programs_still_run(seed);
        }
        if seed % EACH_PROXY == 0 {
            world.restart(seed);
        }
        world.mend(&name);
        // A change may have left a valid file with other names, which is the last good one then.
        let listed = || world.peer().tool_names();
        let mended = eventually(Duration::from_secs(5), || listed().contains(&"pear_peel".into()));
        assert!(mended, "seed {seed}: {:?}: {}", listed(), world.proxy.stderr());
    }
    println!("{rounds} changed artifacts: 0 crashes");
}

struct World {
    lab: Lab,
    proxy: Proxy,
    stub: Stub,
    /// Every artifact by its path in the state directory, when it was whole.
    whole: Vec<(String, Vec<u8>)>,
}

impl World {
    fn new() -> Self {
        let stub = Stub::start(Script::new(Era::Stateless));
        let lab =
            Lab::with_config(&json!({"upstream": {"url": stub.url}, "search": {"vectors": false}}));
        let set = json!({"v": 1, "tools": [{"name": "pear_peel", "why": "promoted"}], "thresholds": {}, "through": null});
        lab.write_state("working-set.json", &set.to_string());
        let proxy = lab.proxy(&[]);
        let peer = Peer::stateless(&proxy.url);
        peer.call("pear_peel", &json!({}));
        let there = || lab.state("catalog.json").exists() && !lab.calls("pear_peel").is_empty();
        assert!(eventually(Duration::from_secs(5), there), "{}", proxy.stderr());
        let _ = lab.run("mws-index", &[]).ok();
        let mut names = vec!["working-set.json".to_owned(), "catalog.json".to_owned()];
        names.extend(["upstream.json", "index/CURRENT"].map(str::to_owned));
        let current = std::fs::read_to_string(lab.state("index/CURRENT")).unwrap();
        names.push(format!("index/{}", current.split(' ').next().unwrap()));
        let read = |name: String| {
            let bytes = std::fs::read(lab.state(&name));
            (name.clone(), bytes.unwrap_or_else(|e| panic!("{name}: {e}")))
        };
        let whole = names.into_iter().map(read).collect();
        Self { lab, proxy, stub, whole }
    }

    fn peer(&self) -> Peer {
        Peer::stateless(&self.proxy.url)
    }

    fn damage(&self, seed: u64) -> String {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let (name, bytes) = &self.whole[random.place(self.whole.len())];
        self.put(name, &changed(&mut random, bytes));
        name.clone()
    }

    fn mend(&self, name: &str) {
        let whole = self.whole.iter().find(|(known, _)| known == name).unwrap();
        self.put(name, &whole.1);
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        let path: PathBuf = self.lab.state(name);
        let new = path.with_extension("new");
        std::fs::write(&new, bytes).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    fn still_serves(&self, seed: usize, name: &str) {
        let peer = self.peer();
        let listed = peer.tool_names();
        assert_eq!(listed[..2], ["search_tools", "call_tool"], "seed {seed}: {name}");
        let text = std::fs::read(self.lab.state("working-set.json")).unwrap();
        let is_damaged = serde_json::from_slice::<Value>(&text).is_err();
        if is_damaged {
            assert_eq!(listed[2..], ["pear_peel"], "seed {seed}: the last good set is gone");
        }
        let found = peer.call("search_tools", &json!({"query": "pear"})).to_string();
        assert!(found.contains("pear_peel"), "seed {seed}: {name}: {found}");
    }

    fn programs_still_run(&self, seed: usize) {
        for (program, args) in [
            ("mws-promote", vec!["-n"]),
            ("mws-report", vec!["--json"]),
            ("mws-index", vec!["search", "--json", "pear"]),
            ("mws-index", vec!["-n"]),
            ("mws", vec!["paths"]),
        ] {
            let done = self.lab.run(program, &args);
            assert!((0..=2).contains(&done.code), "seed {seed}: {program}: {}", done.stderr);
            assert!(!done.stderr.contains("panicked"), "seed {seed}: {}", done.stderr);
        }
    }

    fn restart(&mut self, seed: usize) {
        assert!(!self.proxy.stderr().contains("panicked"), "{}", self.proxy.stderr());
        self.proxy = self.lab.proxy(&[]);
        let listed = self.peer().tool_names();
        assert_eq!(listed[..2], ["search_tools", "call_tool"], "seed {seed}: {}", self.stub.url);
    }
}

/// Flipped, cut, doubled, overwritten or with a piece of JSON in the wrong place.
fn changed(random: &mut Random, whole: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for _ in 0..=random.place(3) {
        let at = random.place(bytes.len());
        match random.place(6) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << random.place(8),
            1 => bytes.truncate(at),
            2 => {
                let end = at + random.place(bytes.len() - at);
                let piece = bytes[at..end].to_vec();
                let to = random.place(bytes.len());
                bytes.splice(to..to, piece);
            }
            3 => {
                let end = at + random.place((bytes.len() - at).min(64));
                bytes[at..end].fill([0, 0xff, b'"', b'['][random.place(4)]);
            }
            4 => {
                let end = at + random.place((bytes.len() - at).min(300));
                bytes.drain(at..end);
            }
            _ => {
                let pieces =
                    ["null", "[]", "{}", "-1", "1e999", "\"", "99999999999999999999", "\u{0}"];
                let piece = pieces[random.place(pieces.len())];
                bytes.splice(at..at, piece.bytes());
            }
        }
    }
    bytes
}
