//! One run, from the command line to the log.
//!
//! Invariant: one writer. A second run that would write says so and leaves.
//! Deliberately absent: reading and folding; see [`crate::engine`].

use mws_catalog::Catalog;
use mws_cli::{Exit, Failure, Output};
use mws_config::{Config, Places};
use mws_event::parse_when;
use mws_state::{ReadError, StageLock, StateDir, now, read_file};

use crate::cli::Cli;
use crate::emit;
use crate::engine::{Engine, Pace};
use crate::follow::follow;
use crate::names::Names;
use crate::progress::Progress;
use crate::roots::roots;
use crate::stats;
use crate::walk::walk;

const CATALOG_MAX: u64 = 256 << 20;

/// Runs the program.
///
/// # Errors
/// Usage and configuration; a log or state that cannot be written.
pub fn run(cli: &Cli) -> Result<Exit, Failure> {
    let (config, dir) = cli.common.load()?;
    if cli.stats {
        return stats::print(&dir);
    }
    let since = cli.since.as_deref().map(|when| parse_when(when, now())).transpose();
    let since = since.map_err(|e| Failure::usage(format!("--since: {e}")))?;
    let places = Places::from_env();
    let (found, warnings) = roots(cli, &config, &places)?;
    let writes = !cli.dry_run && cli.output.is_none();
    let lock = if writes { StageLock::acquire(&dir, "ingest")? } else { None };
    if writes && lock.is_none() {
        tracing::warn!("Another mws-ingest is at work on {}; nothing done.", dir.root().display());
        return Ok(Exit::Done);
    }
    // What is there and what is known of it do not depend on each other.
    let (walk, mut engine) = std::thread::scope(|scope| {
        let walking = scope.spawn(|| walk(&found));
        let engine = Engine::start(&dir, cli.from_start, writes.then_some(Pace::USUAL));
        (walking.join(), engine)
    });
    let walk = walk.map_err(|_| Failure::failed("cannot look through the transcripts"))?;
    engine.warn_all(warnings);
    let names = names(&config, &dir, &mut engine);
    engine.read(walk, &names, cli.jobs, Progress::on_terminal(cli.common.quiet))?;
    match &cli.output {
        Some(path) => emit::to_output(path, &engine.calls, &engine.calls.ready(since))?,
        None if cli.dry_run => print_summary(&engine, engine.calls.ready(since).len())?,
        None => {
            engine.report(since)?;
            engine.record()?;
            engine.keep()?;
        }
    }
    if cli.follow {
        let there = || roots(cli, &config, &places).map_or(0, |(found, _)| found.len());
        follow(&mut engine, there, |engine| {
            // Roots and tools may come while it runs.
            let (found, warnings) = roots(cli, &config, &places)?;
            engine.warn_all(warnings);
            let names = self::names(&config, &dir, engine);
            let mut walk = crate::walk::walk(&found);
            let dirs = std::mem::take(&mut walk.dirs);
            engine.read(walk, &names, cli.jobs, Progress::hidden())?;
            Ok(dirs)
        })?;
    }
    Ok(Exit::Done)
}

fn names(config: &Config, dir: &StateDir, engine: &mut Engine<'_>) -> Names {
    let servers = std::iter::once(&config.server_name).chain(&config.server_aliases);
    let path = dir.catalog();
    let parsed = match read_file(&path, CATALOG_MAX) {
        Ok((bytes, _)) => Catalog::parse(&bytes).map(Some).map_err(|e| e.to_string()),
        Err(ReadError::Missing) => Ok(None),
        Err(e) => Err(e.to_string()),
    };
    let catalog = parsed.unwrap_or_else(|why| {
        let path = path.display();
        engine.warn_all([format!("{path}: {why}; tool names stay as the client wrote them")]);
        None
    });
    let catalog = catalog.map(|(catalog, _)| catalog);
    let tools = catalog.as_ref().map(Catalog::tools).unwrap_or_default();
    Names::new(servers.map(String::as_str), tools.iter().map(mws_catalog::Tool::name))
}

fn print_summary(engine: &Engine<'_>, calls: usize) -> Result<(), Failure> {
    let totals = &engine.totals;
    let mut out = Output::stdout();
    out.line(format_args!(
        "{calls} calls would be appended; {} open; {} files with {} new bytes read; \
         {} damaged lines, {} records recovered; {} warnings",
        engine.calls.open(),
        totals.files,
        totals.bytes,
        totals.bad_lines,
        totals.salvaged,
        totals.warnings,
    ))?;
    Ok(out.finish()?)
}
