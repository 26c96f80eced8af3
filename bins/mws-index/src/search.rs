//! `mws-index search`: the reply of `search_tools`, or names for many queries.
//!
//! Invariant: the same ranking as the proxy's; the published snapshot only saves the time of making
//! the index. Deliberately absent: the upstream; the catalog on disk is searched.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use mws_catalog::Catalog;
use mws_cli::{Exit, Failure, Output, sanitize};
use mws_config::Config;
use mws_search::{Index, Options, Reply, WordVectors};
use mws_state::{StateDir, read_file};
use serde_json::{Value, json};

use crate::{input, published};

/// The largest working set read, in bytes.
const WORKING_SET_MAX: u64 = 16 << 20;
/// Characters of description shown on a terminal.
const SHOWN: usize = 90;

/// Flags of `search`.
#[derive(Clone, Debug, Args)]
pub struct SearchArgs {
    /// Catalog to search, or - for stdin [default: catalog.json of the state directory]
    #[arg(long, value_name = "FILE")]
    pub catalog: Option<PathBuf>,

    /// Most tools to find
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub limit: usize,

    /// Print the reply as JSON on a terminal too
    #[arg(long)]
    pub json: bool,

    /// Read lines {"id", "query"} from FILE or stdin; print {"id", "ranked", "weak", "us"}
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub batch: Option<PathBuf>,

    /// What to search for; nothing lists all tools
    #[arg(value_name = "QUERY")]
    pub query: Vec<String>,
}

pub(crate) fn run(args: &SearchArgs, config: &Config, state: &StateDir) -> Result<Exit, Failure> {
    let options = input::options(config)?;
    let catalog = input::catalog(args.catalog.as_deref(), state)?;
    let vectors = input::vectors(config);
    let index = index(&catalog, &options, vectors.as_ref(), state);
    match &args.batch {
        Some(_) if !args.query.is_empty() => {
            Err(Failure::usage("a query and --batch exclude each other"))
        }
        Some(path) => batch(path, &index, args.limit),
        None => single(args, config, state, &catalog, &index),
    }
}

/// The published index where it is of this catalog, else one made on the spot.
fn index(
    catalog: &Catalog,
    options: &Options,
    vectors: Option<&WordVectors>,
    state: &StateDir,
) -> Index {
    match published::load(state) {
        Ok(Some((_, index))) if published::fits(&index, catalog, options, vectors) => return index,
        Ok(_) => tracing::info!("no published index of this catalog; making one."),
        Err(reason) => tracing::warn!("the published index is not used: {reason}."),
    }
    let mut index = Index::build(catalog, options);
    if let Some(vectors) = vectors {
        index.add_vectors(catalog, vectors);
    }
    index
}

fn single(
    args: &SearchArgs,
    config: &Config,
    state: &StateDir,
    catalog: &Catalog,
    index: &Index,
) -> Result<Exit, Failure> {
    let listed = listed(config, state);
    let query = args.query.join(" ");
    let is_listed = |name: &str| listed.contains(name);
    let reply = mws_search::search(index, catalog, &query, &is_listed, args.limit);
    let mut out = Output::stdout();
    if args.json || reply.results.is_empty() || !std::io::stdout().is_terminal() {
        out.line(reply.to_json())?;
    } else {
        show(&mut out, &reply, catalog)?;
    }
    out.finish()?;
    Ok(Exit::Done)
}

fn show(out: &mut Output, reply: &Reply, catalog: &Catalog) -> Result<(), Failure> {
    let width = reply.results.iter().map(|name| name.chars().count()).max().unwrap_or_default();
    for name in &reply.results {
        let text = catalog.get(name).map_or("", |tool| tool.description());
        let line: String =
            text.trim().lines().next().unwrap_or_default().chars().take(SHOWN).collect();
        out.line(format_args!("{:width$}  {}", sanitize(name), sanitize(&line)))?;
    }
    if reply.more > 0 {
        out.line(format_args!("… and {} more", reply.more))?;
    }
    if reply.weak {
        out.line("(nothing fits well)")?;
    }
    Ok(())
}

/// The names that a client sees listed: the working set and the pins.
fn listed(config: &Config, state: &StateDir) -> HashSet<String> {
    let bytes = read_file(&state.working_set(), WORKING_SET_MAX).map(|(bytes, _)| bytes);
    let value: Value = serde_json::from_slice(&bytes.unwrap_or_default()).unwrap_or_default();
    let tools = value.get("tools").and_then(Value::as_array).into_iter().flatten();
    let names = tools.filter_map(|tool| tool.as_str().or_else(|| tool.get("name")?.as_str()));
    names.map(str::to_owned).chain(config.pins.iter().cloned()).collect()
}

fn batch(path: &Path, index: &Index, limit: usize) -> Result<Exit, Failure> {
    let cannot = |e| Failure::usage(format!("cannot read {}: {e}", path.display()));
    let lines: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(path).map_err(cannot)?))
    };
    let mut out = Output::stdout();
    let mut skipped = 0_u64;
    for line in lines.split(b'\n') {
        let line = line.map_err(cannot)?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        match answer(&line, index, limit) {
            Some(answer) => out.line(answer)?,
            None => skipped += 1,
        }
    }
    out.finish()?;
    if skipped > 0 {
        tracing::warn!("{skipped} lines are no {{\"id\", \"query\"}} and were skipped.");
    }
    Ok(Exit::Done)
}

fn answer(line: &[u8], index: &Index, limit: usize) -> Option<Value> {
    let asked: Value = serde_json::from_slice(line).ok()?;
    let query = asked.get("query")?.as_str()?;
    let started = Instant::now();
    let found = index.rank(query, limit);
    let us = started.elapsed().as_nanos() as f64 / 1000.0;
    let ranked: Vec<&str> = found.tools.iter().filter_map(|&tool| index.name(tool)).collect();
    Some(json!({"id": asked.get("id")?, "ranked": ranked, "weak": found.weak, "us": us}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_lines_are_answered_or_skipped() {
        let catalog = Catalog::parse(br#"{"tools":[{"name":"mail_send"},{"name":"mail_read"}]}"#);
        let index = Index::build(&catalog.unwrap().0, &Options::default());
        let found = answer(br#"{"id":7,"query":"send"}"#, &index, 10).unwrap();
        assert_eq!((&found["id"], &found["ranked"]), (&json!(7), &json!(["mail_send"])));
        for line in
            [&b"{"[..], b"[]", br#"{"id":1}"#, br#"{"query":"x"}"#, br#"{"id":1,"query":2}"#]
        {
            assert_eq!(answer(line, &index, 10), None);
        }
    }

    #[test]
    fn names_of_both_forms_of_a_working_set_are_listed() {
        let tmp = tempfile::tempdir().unwrap();
        let state = StateDir::at(tmp.path().join("s"));
        let text = br#"{"tools":["a",{"name":"b","why":"pinned"},7]}"#;
        mws_state::publish(&state.working_set(), text).unwrap();
        let mut config = Config::defaults(&mws_config::Places::default());
        config.pins = vec!["c".to_owned()];
        let mut names: Vec<String> = listed(&config, &state).into_iter().collect();
        names.sort();
        assert_eq!(names, ["a", "b", "c"]);
    }
}
