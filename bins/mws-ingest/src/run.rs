//! One run, from the command line to the log.
//!
//! Invariant: one writer. A second run that would write says so and leaves.
//! Deliberately absent: progress; reading is as fast as the disk.

use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use mws_catalog::Catalog;
use mws_cli::{Exit, Failure, Output};
use mws_config::{Config, Places};
use mws_event::{Kind, parse_when};
use mws_state::{ReadError, StageLock, StateDir, now, read_file};

use crate::calls::Calls;
use crate::cli::Cli;
use crate::emit;
use crate::known::Known;
use crate::names::Names;
use crate::read::{Job, read_all};
use crate::roots::roots;
use crate::state::State;
use crate::walk::{Walk, walk};

/// Files read ahead of the fold.
const AHEAD: usize = 64;
const CATALOG_MAX: u64 = 256 << 20;

/// Runs the program.
///
/// # Errors
/// Usage and configuration; a log or state that cannot be written.
pub fn run(cli: &Cli) -> Result<Exit, Failure> {
    let (config, dir) = cli.common.load()?;
    let since = cli.since.as_deref().map(|when| parse_when(when, now())).transpose();
    let since = since.map_err(|e| Failure::usage(format!("--since: {e}")))?;
    let (roots, warnings) = roots(cli, &config, &Places::from_env())?;
    let writes = !cli.dry_run && cli.output.is_none();
    let lock = if writes { StageLock::acquire(&dir, "ingest")? } else { None };
    if writes && lock.is_none() {
        tracing::warn!("Another mws-ingest is at work on {}; nothing done.", dir.root().display());
        return Ok(Exit::Done);
    }
    let mut run = Run::start(&dir, cli.from_start, warnings);
    let names = names(&config, &dir, &mut run);
    let walk = walk(&roots);
    run.read(cli, &names, walk)?;
    let keys = run.calls.ready(since);
    match &cli.output {
        Some(path) => emit::to_output(path, &run.calls, &keys)?,
        None if cli.dry_run => run.print_summary(&keys)?,
        None => run.commit(&dir, &keys)?,
    }
    Ok(Exit::Done)
}

fn names(config: &Config, dir: &StateDir, run: &mut Run) -> Names {
    let servers = std::iter::once(&config.server_name).chain(&config.server_aliases);
    let path = dir.catalog();
    let parsed = match read_file(&path, CATALOG_MAX) {
        Ok((bytes, _)) => Catalog::parse(&bytes).map(Some).map_err(|e| e.to_string()),
        Err(ReadError::Missing) => Ok(None),
        Err(e) => Err(e.to_string()),
    };
    let catalog = parsed.unwrap_or_else(|why| {
        run.warn(format!("{}: {why}; tool names stay as the client wrote them", path.display()));
        None
    });
    let catalog = catalog.map(|(catalog, _)| catalog);
    let tools = catalog.as_ref().map(Catalog::tools).unwrap_or_default();
    Names::new(servers.map(String::as_str), tools.iter().map(mws_catalog::Tool::name))
}

struct Run {
    started: Instant,
    before: State,
    /// What was known and is kept, but must not keep a call from being reported again.
    aside: HashMap<u128, Known>,
    calls: Calls,
    after: State,
    changed: bool,
    files: u64,
    bytes: u64,
    bad_lines: u64,
    salvaged: u64,
    warnings: u64,
}

impl Run {
    fn start(dir: &StateDir, from_start: bool, warnings: Vec<String>) -> Self {
        let (mut before, damage) = State::load(dir);
        let mut known = std::mem::take(&mut before.known);
        let mut aside = HashMap::new();
        if from_start {
            before.files.clear();
            std::mem::swap(&mut known, &mut aside);
        }
        let mut run = Self {
            started: Instant::now(),
            calls: Calls::new(known, now()),
            before,
            aside,
            after: State::default(),
            changed: damage.is_some(),
            files: 0,
            bytes: 0,
            bad_lines: 0,
            salvaged: 0,
            warnings: 0,
        };
        warnings.into_iter().chain(damage).for_each(|warning| run.warn(warning));
        run
    }

    fn warn(&mut self, warning: impl std::fmt::Display) {
        self.warnings += 1;
        tracing::warn!("{warning}.");
    }

    /// Reads what changed and folds it.
    fn read(&mut self, cli: &Cli, names: &Names, walk: Walk) -> Result<(), Failure> {
        self.after.fingerprint = names.fingerprint();
        let jobs = self.plan(walk);
        if jobs.is_empty() {
            return Ok(());
        }
        let (sender, receiver) = crossbeam_channel::bounded(AHEAD);
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| read_all(jobs, names, cli.jobs, sender));
            for (found, read) in receiver {
                match read {
                    Ok(read) => {
                        self.files += 1;
                        self.bytes += read.bytes;
                        self.bad_lines += read.batch.bad_lines;
                        self.salvaged += read.batch.salvaged;
                        self.after.files.insert(found.path.into(), read.record);
                        self.calls.absorb(found.source.name, read.batch);
                    }
                    Err(e) => self.warn(format!("cannot read {}: {e}", found.path.display())),
                }
            }
            reading.join().map_err(|_| "a reading thread failed".to_owned())?
        })
        .map_err(Failure::failed)
    }

    /// Keeps the records of unchanged files, and of those that were not looked for; forgets files
    /// that are gone; the others are to be read.
    fn plan(&mut self, walk: Walk) -> Vec<Job> {
        let complete = walk.warnings.is_empty();
        walk.warnings.into_iter().for_each(|warning| self.warn(warning));
        if self.before.fingerprint != self.after.fingerprint {
            self.changed |= !self.before.files.is_empty();
            self.before.files.clear();
        }
        let by_inode = self.before.by_inode();
        let mut jobs = Vec::new();
        for found in walk.files {
            match self.before.files.remove(found.path.as_os_str()) {
                Some(record) if record.stamp == found.stamp => {
                    self.after.files.insert(found.path.into(), record);
                }
                known => {
                    let moved = || by_inode.get(&found.stamp.inode).copied();
                    jobs.push(Job { record: known.or_else(moved), found });
                }
            }
        }
        for (path, record) in std::mem::take(&mut self.before.files) {
            if complete && walk.roots.iter().any(|root| Path::new(&path).starts_with(root)) {
                self.changed = true;
            } else {
                self.after.files.insert(path, record);
            }
        }
        self.changed |= !jobs.is_empty();
        jobs
    }

    fn print_summary(&self, keys: &[u128]) -> Result<(), Failure> {
        let mut out = Output::stdout();
        out.line(format_args!(
            "{} calls would be appended; {} open; {} files with {} new bytes read; \
             {} damaged lines, {} records recovered; {} warnings",
            keys.len(),
            self.calls.open(),
            self.files,
            self.bytes,
            self.bad_lines,
            self.salvaged,
            self.warnings,
        ))?;
        Ok(out.finish()?)
    }

    /// Appends to the log, then replaces the state; a crash in between repeats events.
    fn commit(mut self, dir: &StateDir, keys: &[u128]) -> Result<(), Failure> {
        if self.bytes > 0 || !keys.is_empty() {
            emit::to_log(dir, &self.calls, keys, self.summary(keys.len()))?;
        }
        if self.changed {
            self.after.known = self.calls.into_known();
            for (key, known) in self.aside {
                self.after.known.entry(key).or_insert(known);
            }
            self.after.save(dir).map_err(Failure::failed)?;
        }
        Ok(())
    }

    fn summary(&self, calls: usize) -> Kind {
        Kind::IngestRun {
            files: self.files,
            read_bytes: self.bytes,
            calls: calls as u64,
            open: self.calls.open(),
            bad_lines: self.bad_lines,
            salvaged: self.salvaged,
            warnings: self.warnings,
            ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }
}
