//! The fixtures, and how well search does on queries that were written before it.
//!
//! Invariant: the floors are what is reached, or one point under it; they only go up.
//! Deliberately absent: speed.

use std::collections::BTreeSet;

use mws_catalog::{Backends, Catalog};
use mws_tests::lab::{Lab, bin, finish, workspace};
use serde_json::{Value, json};

#[test]
fn the_fixture_catalog_has_five_backends_of_twelve_tools() {
    let catalog = catalog();
    let backends = Backends::of(&catalog);
    let sizes: Vec<_> = backends.list().iter().map(|b| (b.name.as_str(), b.tools.len())).collect();
    let want = ["mail", "calendar", "drive", "browser", "codesearch"].map(|name| (name, 12));
    assert_eq!((catalog.len(), sizes.as_slice()), (60, &want[..]));
}

#[test]
fn twenty_of_the_fifty_queries_share_no_word_with_the_name() {
    let catalog = catalog();
    let queries = queries();
    assert_eq!(queries.len(), 50);
    for Query { text, relevant, paraphrase } in &queries {
        for name in relevant {
            assert!(catalog.get(name).is_some(), "{text}: no tool {name}");
        }
        let of_names: BTreeSet<_> = relevant.iter().flat_map(|name| stems(name)).collect();
        let shared: Vec<_> = of_names.intersection(&stems(text)).cloned().collect();
        assert!(!paraphrase || shared.is_empty(), "{text}: shares {shared:?}");
    }
    assert_eq!(queries.iter().filter(|query| query.paraphrase).count(), 20);
}

#[test]
fn search_puts_the_right_tool_first_or_among_the_first_three() {
    for (vectors, first, third) in [(false, 84, 90), (true, 90, 98)] {
        let ranked = ranked(vectors);
        let queries = queries();
        let places = queries.iter().zip(&ranked).map(|(query, names)| {
            let place = names.iter().position(|name| query.relevant.contains(name));
            if place.is_none_or(|place| place >= 3) {
                println!(
                    "missed: {}: {:?}, found {:?}",
                    query.text,
                    query.relevant,
                    names.get(..3)
                );
            }
            place
        });
        let places: Vec<Option<usize>> = places.collect();
        let percent = |most: usize| {
            places.iter().flatten().filter(|place| **place < most).count() * 100 / queries.len()
        };
        println!("word vectors {vectors}: first {} %, third {} %", percent(1), percent(3));
        assert!(percent(1) >= first, "first: {} % with word vectors {vectors}", percent(1));
        assert!(percent(3) >= third, "third: {} % with word vectors {vectors}", percent(3));
    }
}

/// The development set of the ranking lies beside some checkouts. One point under what is reached:
/// smaller differences are noise.
#[test]
fn search_is_as_good_on_the_development_set_as_it_was() {
    let data = workspace().join("../shared/search");
    if !data.join("score.py").exists() {
        println!("skipped: the development set is not beside this checkout");
        return;
    }
    for (vectors, floors) in [(false, [76.1, 90.8, 94.3]), (true, [77.9, 90.3, 93.2])] {
        let lab = Lab::with_config(&json!({"search": {"vectors": vectors}}));
        let index = bin("mws-index");
        let ask = format!("{} search --catalog {{catalog}} --batch -", index.display());
        let mut score = lab.command("python3");
        score.arg(data.join("score.py")).arg("--data").arg(&data);
        score.args(["--split", "live527", "devkit", "mcpproxy45", "--json", "--cmd", &ask]);
        let done = finish(&mut score, "").ok();
        let got: Value = serde_json::from_str(done.stdout.trim()).unwrap();
        for (measure, floor) in ["hit@1", "hit@3", "hit@5"].into_iter().zip(floors) {
            let reached = got[measure].as_f64().unwrap() * 100.0;
            assert!(reached >= floor, "{measure} is {reached:.1} with word vectors {vectors}");
        }
    }
}

/// What the command line ranks for each query, best first.
fn ranked(vectors: bool) -> Vec<Vec<String>> {
    let lab = Lab::with_config(&json!({"search": {"vectors": vectors}}));
    let catalog = workspace().join("fixtures/catalog.json");
    let line = |(id, query): (usize, Query)| json!({"id": id, "query": query.text}).to_string();
    let asked: Vec<String> = queries().into_iter().enumerate().map(line).collect();
    let args = ["search", "--batch", "-", "--catalog", catalog.to_str().unwrap()];
    let done = lab.feed("mws-index", &args, &(asked.join("\n") + "\n")).ok();
    let lines = done.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let names = |line: Value| -> Vec<String> {
        line["ranked"].as_array().unwrap().iter().map(|n| n.as_str().unwrap().to_owned()).collect()
    };
    lines.map(names).collect()
}

fn catalog() -> Catalog {
    let text = std::fs::read(workspace().join("fixtures/catalog.json")).unwrap();
    let (catalog, rejected) = Catalog::parse(&text).unwrap();
    assert!(rejected.is_empty(), "{rejected:?}");
    catalog
}

/// A query with its right tools.
struct Query {
    text: String,
    relevant: Vec<String>,
    /// Marked as sharing no word with the name.
    paraphrase: bool,
}

fn queries() -> Vec<Query> {
    let text = std::fs::read_to_string(workspace().join("fixtures/search-gold.json")).unwrap();
    let list: Vec<Value> = serde_json::from_str(&text).unwrap();
    let names = |v: &Value| {
        v["relevant"].as_array().unwrap().iter().map(|n| n.as_str().unwrap().to_owned()).collect()
    };
    list.iter()
        .map(|v| Query {
            text: v["query"].as_str().unwrap().to_owned(),
            relevant: names(v),
            paraphrase: v["paraphrase"] == true,
        })
        .collect()
}

/// Words in lower case, without the endings that English puts on them.
fn stems(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words
        .map(|word| {
            let word = word.to_lowercase();
            let endings = ["ing", "ed", "es", "s"];
            let stem = endings.iter().find_map(|e| word.strip_suffix(e).filter(|s| s.len() > 2));
            stem.unwrap_or(&word).to_owned()
        })
        .collect()
}
