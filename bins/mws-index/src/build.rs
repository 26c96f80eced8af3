//! `mws-index build`: catalog → documents → snapshot.
//!
//! Invariant: one run at a time; what is in force is replaced by something whole or stays.
//! Deliberately absent: waiting for another run; it does the same work.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use mws_catalog::{Backends, Catalog};
use mws_cli::{Exit, Failure, Output};
use mws_config::Config;
use mws_event::{Event, Kind, Record};
use mws_search::{Document, Index, Options, WordVectors};
use mws_state::{Appender, StageLock, StateDir, publish_to};

use crate::store::Analysed;
use crate::{input, published, store};

/// Flags of `build`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct BuildArgs {
    /// Analyse every tool anew and publish even if nothing changed
    #[arg(long)]
    pub full: bool,

    /// Say what would be done and change nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,

    /// Write the snapshot to FILE, or to stdout for -, and publish nothing
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Catalog to index, or - for stdin [default: catalog.json of the state directory]
    #[arg(value_name = "CATALOG")]
    pub catalog: Option<PathBuf>,
}

/// What a run did, as it is printed.
#[derive(Debug, serde::Serialize)]
struct Report {
    published: bool,
    up_to_date: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    catalog_hash: String,
    tools: usize,
    added: usize,
    changed: usize,
    removed: usize,
    analysed: usize,
    bytes: usize,
    ms: u128,
    #[serde(skip_serializing_if = "Option::is_none")]
    spent: Option<Spent>,
}

/// Milliseconds of a publication, by what they went into.
#[derive(Debug, Default, serde::Serialize)]
struct Spent {
    /// Reading the store, analysing what is new, and writing it.
    store: f64,
    index: f64,
    vectors: f64,
    /// Making the snapshot, and putting it safely on disk.
    publish: f64,
}

/// The milliseconds since the last call, or since the start.
fn lap(since: &mut Instant) -> f64 {
    let ms = since.elapsed().as_micros() as f64 / 1000.0;
    *since = Instant::now();
    ms
}

pub(crate) fn run(args: &BuildArgs, config: &Config, state: &StateDir) -> Result<Exit, Failure> {
    let started = Instant::now();
    let wanted = Wanted {
        options: input::options(config)?,
        vectors: input::vectors(config),
        catalog: input::catalog(args.catalog.as_deref(), state)?,
    };
    if let Some(target) = &args.output {
        return write_elsewhere(target, &wanted, args.dry_run);
    }
    if args.dry_run {
        let report = report(&wanted.catalog, wanted.is_published(state), started);
        return print(&report);
    }
    let Some(_lock) = StageLock::acquire(state, "index")? else {
        tracing::warn!("busy: another run of mws-index is at work.");
        return Ok(Exit::Done);
    };
    if !args.full && wanted.is_published(state) {
        return print(&report(&wanted.catalog, true, started));
    }
    // Before sled, which would make the directory readable to all.
    DirBuilder::new().recursive(true).mode(0o700).create(state.index_dir())?;
    let path = state.index_dir().join("sled");
    let mut since = Instant::now();
    let analysed = store::analyse(&wanted.catalog, &path, args.full).map_err(|e| {
        Failure::failed(format!("cannot write the index store {}: {e}; it is kept", path.display()))
            .hint("make room on the disk and run it again; what is published stays in force")
    })?;
    let store = lap(&mut since);
    print(&publish_index(state, &wanted, &analysed, store, started)?)
}

/// Of what an index is to be made.
struct Wanted {
    catalog: Catalog,
    options: Options,
    vectors: Option<WordVectors>,
}

impl Wanted {
    /// Whether the snapshot in force is of all this.
    fn is_published(&self, state: &StateDir) -> bool {
        match published::load(state) {
            Ok(Some((_, index))) => {
                published::fits(&index, &self.catalog, &self.options, self.vectors.as_ref())
            }
            Ok(None) => false,
            Err(reason) => {
                tracing::warn!("the published index is made again: {reason}.");
                false
            }
        }
    }

    fn index(&self, documents: &[Document]) -> (Index, Spent) {
        let mut since = Instant::now();
        let mut index = Index::assemble(documents, self.catalog.hash(), &self.options);
        let spent = Spent { index: lap(&mut since), ..Spent::default() };
        if let Some(vectors) = &self.vectors {
            index.add_vectors(&self.catalog, vectors);
        }
        (index, Spent { vectors: lap(&mut since), ..spent })
    }
}

fn publish_index(
    state: &StateDir,
    wanted: &Wanted,
    analysed: &Analysed,
    store: f64,
    started: Instant,
) -> Result<Report, Failure> {
    let (index, spent) = wanted.index(&analysed.documents);
    let mut since = Instant::now();
    let bytes = index.to_snapshot();
    let current = published::replace(state, &index, &bytes)?;
    let spent = Spent { store, publish: lap(&mut since), ..spent };
    published::clear(state);
    let kind = Kind::IndexPublished {
        hash: format!("{:016x}", current.checksum),
        catalog_hash: format!("{:016x}", current.catalog_hash),
        tools: wanted.catalog.len() as u64,
        bytes: bytes.len() as u64,
    };
    if let Err(e) = log(state, kind) {
        tracing::warn!("the index is published, but the log does not say so: {e}.");
    }
    Ok(Report {
        published: true,
        up_to_date: true,
        file: Some(current.file),
        added: analysed.added,
        changed: analysed.changed,
        removed: analysed.removed,
        analysed: analysed.made,
        bytes: bytes.len(),
        spent: Some(spent),
        ..report(&wanted.catalog, true, started)
    })
}

fn log(state: &StateDir, kind: Kind) -> std::io::Result<()> {
    let now = mws_state::now();
    let mut record = Record::new(now, kind);
    record.id = Some(mws_state::writer_id().next_id());
    let mut appender = Appender::open(state)?;
    appender.append(&Event::Record(record).to_line(), now)?;
    appender.sync()
}

fn write_elsewhere(target: &Path, wanted: &Wanted, dry_run: bool) -> Result<Exit, Failure> {
    let backends = Backends::of(&wanted.catalog);
    let documents = store::without_store(&wanted.catalog, &backends).documents;
    let bytes = wanted.index(&documents).0.to_snapshot();
    if dry_run {
        return Ok(Exit::Done);
    }
    if target == Path::new("-") {
        let mut out = Output::stdout();
        out.bytes(&bytes)?;
        out.finish()?;
    } else {
        publish_to(target, &bytes)?;
    }
    Ok(Exit::Done)
}

fn report(catalog: &Catalog, up_to_date: bool, started: Instant) -> Report {
    Report {
        published: false,
        up_to_date,
        file: None,
        catalog_hash: format!("{:016x}", catalog.hash()),
        tools: catalog.len(),
        added: 0,
        changed: 0,
        removed: 0,
        analysed: 0,
        bytes: 0,
        ms: started.elapsed().as_millis(),
        spent: None,
    }
}

fn print(report: &Report) -> Result<Exit, Failure> {
    let mut out = Output::stdout();
    out.line(serde_json::to_string(report).map_err(Failure::failed)?)?;
    out.finish()?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mws_state::publish;
    use std::os::unix::fs::PermissionsExt;

    fn state(tools: &str) -> (tempfile::TempDir, StateDir) {
        let tmp = tempfile::tempdir().unwrap();
        let state = StateDir::at(tmp.path().join("s"));
        publish(&state.catalog(), format!("{{\"tools\":[{tools}]}}").as_bytes()).unwrap();
        (tmp, state)
    }

    fn build(args: &BuildArgs, state: &StateDir) {
        let config = Config::defaults(&mws_config::Places::default());
        assert_eq!(run(args, &config, state).unwrap(), Exit::Done);
    }

    fn generation(state: &StateDir) -> u64 {
        published::load(state).unwrap().map_or(0, |(current, _)| current.generation)
    }

    #[test]
    fn a_run_publishes_once_for_each_catalog_and_logs_it() {
        let (_tmp, state) = state(r#"{"name":"mail_send"}"#);
        build(&BuildArgs { dry_run: true, ..BuildArgs::default() }, &state);
        assert_eq!((generation(&state), state.index_dir().exists()), (0, false));
        build(&BuildArgs::default(), &state);
        build(&BuildArgs::default(), &state);
        assert_eq!(generation(&state), 1);
        build(&BuildArgs { full: true, ..BuildArgs::default() }, &state);
        assert_eq!(generation(&state), 2);
        publish(&state.catalog(), br#"{"tools":[]}"#).unwrap();
        build(&BuildArgs::default(), &state);
        let (_, index) = published::load(&state).unwrap().unwrap();
        assert!(index.is_empty());
        assert_eq!(mws_state::read_events(&state).0.len(), 3);
        let mode = std::fs::metadata(state.index_dir()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_second_run_leaves_and_a_damaged_index_is_made_again() {
        let (_tmp, state) = state(r#"{"name":"mail_send"}"#);
        let lock = StageLock::acquire(&state, "index").unwrap();
        build(&BuildArgs::default(), &state);
        assert_eq!(generation(&state), 0);
        drop(lock);
        build(&BuildArgs::default(), &state);
        publish(&state.index_current(), b"?").unwrap();
        build(&BuildArgs::default(), &state);
        assert_eq!(generation(&state), 2);
    }

    #[test]
    fn a_target_of_its_own_touches_nothing_else() {
        let (tmp, state) = state(r#"{"name":"mail_send"}"#);
        let target = tmp.path().join("x.mwsx");
        build(&BuildArgs { output: Some(target.clone()), ..BuildArgs::default() }, &state);
        let index = Index::from_snapshot(&std::fs::read(target).unwrap()).unwrap();
        assert_eq!((index.len(), state.index_dir().exists()), (1, false));
    }

    #[test]
    fn the_configuration_switches_word_vectors() {
        let (_tmp, state) = state(r#"{"name":"mail_send"},{"name":"disk_clear"}"#);
        let mut config = Config::defaults(&mws_config::Places::default());
        for (vectors, generation) in [(true, 1), (true, 1), (false, 2)] {
            config.search.vectors = vectors;
            assert_eq!(run(&BuildArgs::default(), &config, &state).unwrap(), Exit::Done);
            let (current, index) = published::load(&state).unwrap().unwrap();
            assert_eq!(current.generation, generation);
            assert_eq!(index.vectors_hash().is_some(), vectors);
        }
    }
}
