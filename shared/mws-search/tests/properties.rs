//! Whatever is asked of whatever catalog, a reply keeps its promises.
//!
//! Invariant: queries made from a fixed sequence for each catalog, ten thousand where MWS_HEAVY is
//! set; each reply is valid JSON, within the budget unless it answers exact names, with the upstream's
//! bytes for every schema, and the same when it is given again by an index from a snapshot. The best
//! tools are those that stand first when all are asked for.
//! Deliberately absent: quality.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::collections::BTreeMap;

use mws_catalog::{Backends, Catalog};
use mws_search::{BUDGET, Detail, Index, Kind, Options, Reply, Request, WordVectors, answer};
use serde_json::Value;
use serde_json::value::RawValue;

const QUERIES: usize = 10_000;

/// One in so many of these is enough for every day: large catalogs are slow without optimisation.
fn queries(one_in: usize) -> usize {
    if std::env::var_os("MWS_HEAVY").is_some() { QUERIES } else { QUERIES / one_in }
}

#[test]
fn replies_over_made_up_catalogs_keep_their_promises() {
    // Tools, backends, which part of the queries.
    let sizes = [
        (0, 0, 100),
        (1, 1, 11),
        (7, 3, 4),
        (60, 5, 4),
        (300, 1, 50),
        (527, 70, 20),
        (1800, 600, 50),
    ];
    for (tools, backends, one_in) in sizes {
        ask(&generated(tools, backends), queries(one_in));
    }
}

#[test]
fn replies_over_the_fixture_keep_their_promises() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/catalog.json");
    ask(&Catalog::parse(&std::fs::read(path).unwrap()).unwrap().0, queries(4));
}

/// Real catalogs lie beside some checkouts.
#[test]
fn replies_over_real_catalogs_keep_their_promises() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/search/catalogs");
    let Ok(listed) = std::fs::read_dir(path) else {
        return println!("skipped: no real catalogs beside this checkout");
    };
    let mut paths: Vec<_> = listed.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let tools: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let text = format!("{{\"tools\":[{}]}}", tools.join(","));
        ask(&Catalog::parse(text.as_bytes()).unwrap().0, queries(50));
    }
}

fn ask(catalog: &Catalog, queries: usize) {
    let index = Index::build(catalog, &Options::default());
    let again = Index::from_snapshot(&index.to_snapshot()).unwrap();
    let mut meaning = Index::build(catalog, &Options::default());
    meaning.add_vectors(catalog, &word_vectors());
    let backends = Backends::of(catalog);
    let mut dice = Dice(catalog.len() as u64);
    let (mut kinds, mut largest) = (BTreeMap::<&str, usize>::new(), 0);
    for round in 0..queries {
        let query = query(catalog, &backends, &mut dice);
        let details = [Detail::Best, Detail::Best, Detail::Brief, Detail::Full];
        let backend = backend(&backends, &mut dice);
        let request = Request {
            query: &query,
            backend: (round % 11 == 0).then_some(backend),
            limit: [10, 10, 1, 0, 50][dice.below(5)],
            detail: details[dice.below(4)],
        };
        let listed = |name: &str| name.len().is_multiple_of(3);
        let reply = answer(&index, catalog, &listed, &request);
        check(&reply, catalog, &query);
        *kinds.entry(reply.kind.as_str()).or_default() += 1;
        if reply.kind != Kind::Exact {
            largest = largest.max(reply.to_json().len());
        }
        if round % 10 == 0 {
            let same = answer(&again, catalog, &listed, &request);
            assert_eq!(reply.to_json(), same.to_json(), "{query:?} from a snapshot");
        }
        if round % 3 == 0 {
            let limit = [1, 3, 10][dice.below(3)];
            first_of_all(&index, &query, limit, catalog.len());
            first_of_all(&meaning, &query, limit, catalog.len());
        }
    }
    println!("{} tools, {queries} queries: {kinds:?}, largest {largest} bytes", catalog.len());
}

fn word_vectors() -> WordVectors {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bins/mws-index/data/wordvec.bin");
    WordVectors::parse(&std::fs::read(path).unwrap()).unwrap()
}

/// A limit spares work, and changes nothing else.
fn first_of_all(index: &Index, query: &str, limit: usize, tools: usize) {
    let (few, all) = (index.rank(query, limit), index.rank(query, tools.max(limit)));
    assert!(all.tools.starts_with(&few.tools), "{query:?}: {few:?} of {all:?}");
    assert_eq!((few.kind, few.weak), (all.kind, all.weak), "{query:?}");
    let left_out = all.tools.len() - few.tools.len();
    assert!(left_out == 0 || few.tools.len() >= limit, "{query:?}: {few:?}");
}

fn backend<'a>(backends: &'a Backends, dice: &mut Dice) -> &'a str {
    let backend = backends.list().get(dice.below(backends.list().len()));
    backend.map_or("nowhere", |backend| backend.name.as_str())
}

fn check(reply: &Reply, catalog: &Catalog, query: &str) {
    let text = reply.to_json();
    assert!(reply.kind == Kind::Exact || text.len() <= BUDGET, "{query:?}: {} bytes", text.len());
    let value: Value = serde_json::from_str(&text).unwrap();
    let results = value["results"].as_array().unwrap();
    assert_eq!(results.len(), reply.results.len(), "{query:?}");
    assert_eq!(value["kind"], reply.kind.as_str());
    assert_eq!(value["weak"] == true, reply.weak, "{query:?}");
    #[derive(serde::Deserialize)]
    struct Raw<'a> {
        #[serde(borrow)]
        results: Vec<Tool<'a>>,
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Tool<'a> {
        name: String,
        #[serde(borrow)]
        input_schema: Option<&'a RawValue>,
    }
    let raw: Raw<'_> = serde_json::from_str(&text).unwrap();
    for (tool, name) in raw.results.iter().zip(&reply.results) {
        assert_eq!(&tool.name, name);
        let known = catalog.get(name).unwrap();
        if let Some(schema) = tool.input_schema {
            assert_eq!(Some(schema.get()), known.input_schema(), "{query:?}: {name}");
        }
        let whole = tool.input_schema.is_some() || known.input_schema().is_none();
        assert!(whole || reply.kind != Kind::Exact, "{query:?}: {name} came without its schema");
    }
}

/// A fixed sequence of numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound.max(1)
    }

    fn of<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

const WORDS: [&str; 24] = [
    "file",
    "send",
    "mail",
    "list",
    "delete",
    "Create",
    "photo",
    "search",
    "issue",
    "weather",
    "étage",
    "文件",
    "データ",
    "größe",
    "x",
    "pull request",
    "HTTP",
    "repo",
    "日",
    "🦀",
    "naïve",
    "v2",
    "a",
    "the",
];

fn query(catalog: &Catalog, backends: &Backends, dice: &mut Dice) -> String {
    let name = |dice: &mut Dice| {
        let tools = catalog.tools();
        let tool = tools.get(dice.below(tools.len()));
        tool.map_or("server1__none", |tool| tool.name()).to_owned()
    };
    let joint = |dice: &mut Dice| dice.of(&[" ", ", ", "_", "__", "-", "\n", "' ", "\u{0}"]);
    match dice.below(12) {
        0 => name(dice),
        1 => name(dice).to_uppercase(),
        2 => format!("{} {}", name(dice), name(dice)),
        3 => name(dice).chars().rev().collect(),
        4 => backend(backends, dice).to_owned(),
        5 => format!("{} {}", backend(backends, dice), dice.of(&WORDS)),
        6 => " ".repeat(dice.below(3)),
        7 => {
            let wrong = name(dice);
            let skip = dice.below(wrong.len());
            wrong.chars().enumerate().filter(|(at, _)| *at != skip).map(|(_, c)| c).collect()
        }
        8 | 9 => {
            let tool = catalog.tools().get(dice.below(catalog.len()));
            let text = tool.map_or("", |tool| tool.description());
            let words: Vec<&str> = text.split_whitespace().take(60).collect();
            let (from, many) = (dice.below(words.len()), 1 + dice.below(9));
            words.iter().skip(from).take(many).map(|word| format!("{word} ")).collect()
        }
        _ => {
            let words = 1 + dice.below(9);
            (0..words).map(|_| format!("{}{}", dice.of(&WORDS), joint(dice))).collect()
        }
    }
}

/// Tools with everything that makes a reply hard: long names, long and nested schemas, odd spacing,
/// escapes, no schema, no description.
fn generated(tools: usize, backends: usize) -> Catalog {
    let mut dice = Dice(7);
    let mut list = Vec::new();
    for at in 0..tools {
        let server = at % backends.max(1);
        let tail = "z".repeat(if at % 37 == 0 { 180 } else { 0 });
        let (first, second) = (dice.of(&WORDS), dice.of(&WORDS));
        let name = format!("server{server}__{first}_{second}_{at}{tail}");
        let words: Vec<&str> =
            (0..dice.below(if at % 5 == 0 { 900 } else { 30 })).map(|_| dice.of(&WORDS)).collect();
        let description = format!("{}. \"Quoted\" \\ and\ttabs", words.join(" "));
        let schema = match at % 6 {
            0 => "null".to_owned(),
            1 => format!(r#"{{ "type":"object", "properties":{{"big":{{"description":"{}"}}}} }}"#, "y".repeat(9000)),
            2 => format!(r#"{{"properties":{{{}}}}}"#, (0..200).map(|i| format!(r#""p{i}":{{"type":["string","null"]}}"#)).collect::<Vec<_>>().join(",")),
            _ => r#"{"type" : "object","properties":{"to":{"type":"string","default":1.0}},"required":["to"]}"#.to_owned(),
        };
        let name = serde_json::to_string(&name).unwrap();
        let description = serde_json::to_string(&description).unwrap();
        list.push(match at % 6 {
            0 => format!(r#"{{"name":{name}}}"#),
            _ => format!(r#"{{"name":{name},"description":{description},"inputSchema":{schema}}}"#),
        });
    }
    Catalog::parse(format!("{{\"tools\":[{}]}}", list.join(",")).as_bytes()).unwrap().0
}
