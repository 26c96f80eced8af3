//! Times of search: `bench CATALOG [COPIES] [WORDVEC] [DIR]`, one JSON object a run on stdout.
//!
//! Invariant: one thread; queries are words of the catalog's own texts, one in eight with a slip of
//! the fingers, chosen by a fixed sequence. What is measured of a query is the ranking of ten tools,
//! not the text of a reply. In DIR it leaves `catalog.json`, the catalog as measured, and
//! `changed.json`, the same with one tool changed. Deliberately absent: quality; see the development
//! set.
#![allow(clippy::print_stdout, clippy::disallowed_methods, missing_docs)]

use std::collections::HashMap;
use std::error::Error;
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use mws_catalog::{Backends, Catalog};
use mws_search::{Analyser, Document, Index, Options, WordVectors};
use serde_json::{Value, json};

const QUERIES: usize = 2000;
const ROUNDS: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let path = args.first().ok_or("bench CATALOG [COPIES] [WORDVEC] [DIR]")?;
    if path == "--memory" {
        return memory(args.get(1).ok_or("bench --memory SNAPSHOT")?);
    }
    let copies = args.get(1).map_or(Ok(1), |n| n.parse())?;
    let catalog = copied(&std::fs::read_to_string(path)?, copies, args.get(3))?;
    let queries = queries(&catalog);
    let (mut index, build) = best(|| Index::build(&catalog, &Options::default()));
    let lexical = times(&index, &queries);
    let snapshot = index.to_snapshot();
    let (_, load) = best(|| Index::from_snapshot(&snapshot));
    let mut out = json!({
        "catalog": path, "tools": catalog.len(), "queries": queries.len(),
        "build_ms": build, "load_ms": load, "snapshot_bytes": snapshot.len(),
        "lexical_us": lexical,
    });
    let per_tool = |snapshot: &[u8]| -> Result<usize, Box<dyn Error>> {
        Ok(memory_of(snapshot, args.get(3))? / catalog.len().max(1))
    };
    out["memory_bytes_per_tool"] = json!(per_tool(&snapshot)?);
    let backends = Backends::of(&catalog);
    let (documents, analyse) = best(|| -> Vec<Document> {
        let mut analyser = Analyser::default();
        catalog.tools().iter().map(|tool| analyser.document(tool, &backends)).collect()
    });
    let (_, assemble) = best(|| Index::assemble(&documents, catalog.hash(), &Options::default()));
    out["analyse_ms"] = json!(analyse);
    out["assemble_ms"] = json!(assemble);
    if let Some(path) = args.get(2) {
        let table = WordVectors::parse(&std::fs::read(path)?).ok_or("no table of word vectors")?;
        let started = Instant::now();
        index.add_vectors(&catalog, &table);
        out["vectors_ms"] = json!(ms(started));
        let snapshot = index.to_snapshot();
        let (_, load) = best(|| Index::from_snapshot(&snapshot));
        out["vectors_load_ms"] = json!(load);
        out["vectors_snapshot_bytes"] = json!(snapshot.len());
        out["vectors_us"] = times(&index, &queries);
        out["vectors_memory_bytes_per_tool"] = json!(per_tool(&snapshot)?);
    }
    println!("{out}");
    Ok(())
}

/// What an index takes, measured in a process that does nothing else; 0 without a directory.
fn memory_of(snapshot: &[u8], dir: Option<&String>) -> Result<usize, Box<dyn Error>> {
    let Some(dir) = dir else { return Ok(0) };
    let path = format!("{dir}/snapshot");
    std::fs::write(&path, snapshot)?;
    let done = Command::new(std::env::current_exe()?).args(["--memory", &path]).output()?;
    Ok(String::from_utf8(done.stdout)?.trim().parse()?)
}

fn memory(path: &str) -> Result<(), Box<dyn Error>> {
    let before = resident();
    let index = Index::from_snapshot(&std::fs::read(path)?)?;
    println!("{}", resident().saturating_sub(before));
    black_box(index);
    Ok(())
}

/// The catalog, as often as asked for, each time with other backends; left in a directory.
fn copied(text: &str, copies: usize, dir: Option<&String>) -> Result<Catalog, Box<dyn Error>> {
    let value: Value = serde_json::from_str(text)?;
    let tools = value["tools"].as_array().ok_or("no tools")?;
    let copy = |copy: usize| {
        tools.iter().cloned().map(move |mut tool| {
            if copy > 0 {
                tool["name"] = json!(format!("c{copy}{}", tool["name"].as_str().unwrap_or("")));
            }
            tool
        })
    };
    let mut all: Vec<Value> = (0..copies).flat_map(copy).collect();
    let text = json!({"tools": &all}).to_string();
    if let Some(dir) = dir {
        std::fs::write(format!("{dir}/catalog.json"), &text)?;
        let middle = all.len() / 2;
        all[middle]["description"] = json!("Changed since.");
        std::fs::write(format!("{dir}/changed.json"), json!({"tools": all}).to_string())?;
    }
    Ok(Catalog::parse(text.as_bytes())?.0)
}

fn queries(catalog: &Catalog) -> Vec<String> {
    let mut seed = 42_u64;
    let mut next = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below.max(1)
    };
    let tools = catalog.tools();
    let mut queries = Vec::new();
    for _ in 0..QUERIES * usize::from(!tools.is_empty()) {
        let tool = &tools[next(tools.len())];
        let text = format!("{} {}", tool.name().replace(['_', '-'], " "), tool.description());
        // Scripts without spaces make words of a whole sentence; nobody asks that long.
        let word = |word: &str| word.chars().take(20).collect::<String>();
        let words: Vec<String> = text.split_whitespace().take(40).map(word).collect();
        let mut words: Vec<String> =
            (0..2 + next(6)).map(|_| words[next(words.len())].clone()).collect();
        if next(8) == 0 {
            let word = &mut words[0];
            let letter = word.char_indices().nth(2).map(|(at, _)| at);
            letter.map(|at| word.remove(at));
        }
        queries.push(words.join(" "));
    }
    queries
}

/// Per query the fastest of some rounds, then p50, p90, p99 and the slowest, in microseconds.
fn times(index: &Index, queries: &[String]) -> Value {
    let mut fastest: HashMap<usize, f64> = HashMap::new();
    for _ in 0..ROUNDS {
        for (at, query) in queries.iter().enumerate() {
            let started = Instant::now();
            black_box(index.rank(black_box(query), 10));
            let us = started.elapsed().as_nanos() as f64 / 1000.0;
            fastest.entry(at).and_modify(|best| *best = best.min(us)).or_insert(us);
        }
    }
    let mut all: Vec<f64> = fastest.into_values().collect();
    all.sort_by(f64::total_cmp);
    let at = |share: usize| all.get((all.len() * share / 100).min(all.len().saturating_sub(1)));
    json!({"p50": at(50), "p90": at(90), "p99": at(99), "max": all.last()})
}

/// The fastest of some rounds, or of as many as a second has room for.
fn best<T>(mut work: impl FnMut() -> T) -> (T, f64) {
    let begun = Instant::now();
    let timed = |work: &mut dyn FnMut() -> T| {
        let started = Instant::now();
        let made = work();
        (made, ms(started))
    };
    let (mut made, mut fastest) = timed(&mut work);
    let mut rounds = 1;
    while rounds < ROUNDS || begun.elapsed().as_millis() < 1000 {
        let (again, took) = timed(&mut work);
        (made, fastest) = (again, took.min(fastest));
        rounds += 1;
    }
    (made, fastest)
}

fn ms(started: Instant) -> f64 {
    started.elapsed().as_micros() as f64 / 1000.0
}

/// Bytes of this process in memory; 0 where the system does not say.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kib.unwrap_or_default() * 1024
}
