//! The fixtures, and how well search does on queries that were written before it.
//!
//! Invariant: the floors are those of the first release; they only go up.
//! Deliberately absent: other catalogs and speed.

use std::collections::BTreeSet;

use mws_catalog::{Backends, Catalog};
use mws_search::{Index, Options};
use mws_tests::lab::workspace;
use serde_json::Value;

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
    let index = Index::build(&catalog(), &Options::default());
    let queries = queries();
    let (mut first, mut third) = (0, 0);
    for Query { text, relevant, .. } in &queries {
        let found = index.rank(text, 10);
        let names: Vec<_> = found.tools.iter().filter_map(|tool| index.name(*tool)).collect();
        let place = names.iter().position(|name| relevant.iter().any(|r| r == name));
        first += usize::from(place == Some(0));
        third += usize::from(place.is_some_and(|place| place < 3));
        if place.is_none_or(|place| place >= 3) {
            println!("missed: {text}: {relevant:?}, found {:?}", names.get(..3));
        }
    }
    let percent = |n: usize| n * 100 / queries.len();
    println!("top-1 {} %, top-3 {} % of {} queries", percent(first), percent(third), queries.len());
    assert!(percent(first) >= 70, "top-1 is {} %", percent(first));
    assert!(percent(third) >= 90, "top-3 is {} %", percent(third));
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
