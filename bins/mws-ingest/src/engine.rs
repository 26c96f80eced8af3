//! One pass over the transcripts: what changed is read and folded, then appended and kept.
//!
//! Invariant: what was read is kept before it was reported only together with the calls that are
//! still to be reported, so that an interrupted run goes on where it was and reports the same.
//! Deliberately absent: the command line, and when to make a pass.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use mws_cli::Failure;
use mws_event::{Kind, Timestamp};
use mws_state::{StateDir, now};

use crate::calls::Calls;
use crate::emit;
use crate::hashed::ByHash;
use crate::known::Known;
use crate::names::Names;
use crate::progress::Progress;
use crate::read::{FileRead, Job, read_all, read_file};
use crate::scan::Window;
use crate::state::{Files, State, save};
use crate::walk::{Found, Walk, shown};

/// Groups of files read ahead of the fold.
const AHEAD: usize = 64;

/// How much may have to be read again after an interruption.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// Bytes,
    pub(crate) bytes: u64,
    /// or files, but
    pub(crate) files: u64,
    /// no more often than this: keeping costs time too.
    pub(crate) every: Duration,
}

impl Pace {
    /// The pace of ordinary runs.
    pub(crate) const USUAL: Self =
        Self { bytes: 64 << 20, files: 1000, every: Duration::from_secs(3) };
}

/// What was done since the last record of it.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) calls: u64,
    pub(crate) bad_lines: u64,
    pub(crate) salvaged: u64,
    pub(crate) warnings: u64,
    pub(crate) spent: Duration,
}

/// The state of all runs, in memory.
pub(crate) struct Engine<'a> {
    dir: &'a StateDir,
    /// Where nothing may be written, nothing is kept in between either.
    pace: Option<Pace>,
    fingerprint: u64,
    files: Files,
    pub(crate) calls: Calls,
    /// What was known and is kept, but must not keep a call from being reported again.
    aside: ByHash<Known>,
    /// Ids of calls that are in the log though nothing is known of them.
    logged: HashSet<String>,
    changed: bool,
    said: HashSet<String>,
    pub(crate) totals: Totals,
}

impl<'a> Engine<'a> {
    /// Goes on from the state in `dir`.
    pub(crate) fn start(dir: &'a StateDir, from_start: bool, pace: Option<Pace>) -> Self {
        let (mut state, damage) = State::load(dir);
        let is_unknown = from_start || state.files.is_empty();
        let logged = pace.filter(|_| is_unknown).map_or_else(HashSet::new, |_| emit::logged(dir));
        let mut aside = ByHash::default();
        if from_start {
            state.files.clear();
            aside = std::mem::take(&mut state.kept).known;
        }
        let links = state.files.values().filter_map(|record| record.link.clone());
        let mut engine = Self {
            calls: Calls::new(state.kept, links, now()),
            dir,
            pace,
            fingerprint: state.fingerprint,
            files: state.files,
            aside,
            logged,
            changed: damage.is_some(),
            said: HashSet::new(),
            totals: Totals::default(),
        };
        engine.warn_all(damage);
        engine
    }

    /// Says each warning once.
    pub(crate) fn warn_all(&mut self, warnings: impl IntoIterator<Item = String>) {
        for warning in warnings {
            if !self.said.contains(&warning) {
                tracing::warn!("{warning}.");
                self.totals.warnings += 1;
                self.said.insert(warning);
            }
        }
    }

    /// Reads what changed and folds it.
    ///
    /// # Errors
    /// When reading threads cannot be started, or the state cannot be kept.
    pub(crate) fn read(
        &mut self,
        walk: Walk,
        names: &Names,
        threads: Option<u16>,
        mut progress: Progress,
    ) -> Result<(), Failure> {
        let started = Instant::now();
        let jobs = self.plan(walk, names.fingerprint());
        if jobs.is_empty() {
            return Ok(());
        }
        if let [job] = &jobs[..] {
            // Threads cost more than they save.
            let read = read_file(job, names, &mut Window::new());
            self.take(job.found.clone(), read);
            self.totals.spent += started.elapsed();
            return Ok(());
        }
        progress.start(jobs.iter().map(|job| job.found.stamp.size));
        let mut kept = (Instant::now(), 0, 0);
        let (sender, receiver) = crossbeam_channel::bounded(AHEAD);
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| read_all(jobs, names, threads, sender));
            for (found, read) in receiver.into_iter().flatten() {
                progress.step(found.stamp.size);
                self.take(found, read);
                kept.1 += 1;
                self.keep_sometimes(&mut kept)?;
            }
            reading.join().map_err(|_| "a reading thread failed".to_owned())?
        })
        .map_err(Failure::failed)?;
        self.totals.spent += started.elapsed();
        Ok(())
    }

    fn take(&mut self, found: Found, read: std::io::Result<FileRead>) {
        match read {
            Ok(read) => {
                self.totals.files += 1;
                self.totals.bytes += read.bytes;
                self.totals.bad_lines += read.batch.bad_lines;
                self.totals.salvaged += read.batch.salvaged;
                self.files.insert(found.key, read.record);
                self.calls.absorb(found.source.name, read.batch);
            }
            // It was there a moment ago; the next run finds where it went.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => self.warn_all([format!("cannot read {}: {e}", shown(&found.path))]),
        }
    }

    /// `kept`: when the state was kept last, and files and bytes read by then.
    fn keep_sometimes(&mut self, kept: &mut (Instant, u64, u64)) -> Result<(), String> {
        let Some(pace) = self.pace else { return Ok(()) };
        let is_much = kept.1 >= pace.files || self.totals.bytes - kept.2 >= pace.bytes;
        if is_much && kept.0.elapsed() >= pace.every {
            save(self.dir, self.fingerprint, &self.files, self.calls.kept())
                .map_err(|e| e.to_string())?;
            *kept = (Instant::now(), 0, self.totals.bytes);
        }
        Ok(())
    }

    /// Leaves unchanged files alone, and those that were not looked for; forgets files that are
    /// gone; the others are to be read.
    fn plan(&mut self, mut walk: Walk, fingerprint: u64) -> Vec<Job> {
        let (complete, roots) = (walk.warnings.is_empty(), walk.root_hashes());
        self.warn_all(std::mem::take(&mut walk.warnings));
        if self.fingerprint != fingerprint {
            self.changed |= !self.files.is_empty();
            self.fingerprint = fingerprint;
            self.files.clear();
        }
        if self.is_unchanged(&walk) {
            return Vec::new();
        }
        let mut jobs = Vec::new();
        let mut before = std::mem::take(&mut self.files);
        let mut news = Vec::new();
        for found in walk.files {
            match before.remove(&found.key) {
                Some(record) if record.stamp == found.stamp => {
                    self.files.insert(found.key, record);
                }
                Some(record) => jobs.push(Job { record: Some(record), found }),
                None => news.push(found),
            }
        }
        if !news.is_empty() {
            // A new file may be one that was moved.
            let gone = before.values().map(|record| (record.stamp.inode, record));
            let by_inode: HashMap<_, _> = gone.collect();
            for found in news {
                let record = by_inode.get(&found.stamp.inode).map(|record| (*record).clone());
                jobs.push(Job { record, found });
            }
        }
        for (key, record) in before {
            if complete && roots.contains(&record.root) {
                self.changed = true;
            } else {
                self.files.insert(key, record);
            }
        }
        for job in &jobs {
            if let Some(record) = &job.record {
                self.files.insert(job.found.key, record.clone());
            }
        }
        self.changed |= !jobs.is_empty();
        jobs
    }

    /// Whether exactly the files that were read are there, as they were.
    fn is_unchanged(&self, walk: &Walk) -> bool {
        let is_known = |found: &Found| {
            let record = self.files.get(&found.key);
            record.is_some_and(|record| record.stamp == found.stamp)
        };
        self.files.len() == walk.files.len() && walk.files.iter().all(is_known)
    }

    /// Appends to the log what is ready; true when there was something.
    ///
    /// # Errors
    /// When the log cannot be written.
    pub(crate) fn report(&mut self, since: Option<Timestamp>) -> Result<bool, Failure> {
        let keys = self.calls.ready(since);
        let is_new = |key: &u128| self.calls.id(*key).is_none_or(|id| !self.logged.contains(&id));
        let new: Vec<u128> = match self.logged.is_empty() {
            true => keys.clone(),
            false => keys.iter().copied().filter(is_new).collect(),
        };
        if !new.is_empty() {
            emit::to_log(self.dir, &self.calls, &new)?;
        }
        self.changed |= !keys.is_empty();
        self.totals.calls += new.len() as u64;
        self.calls.reported(&keys);
        self.calls.pass_over();
        Ok(!new.is_empty())
    }

    /// Appends the record of what was done to the log, unless that was nothing.
    ///
    /// # Errors
    /// When the log cannot be written.
    pub(crate) fn record(&mut self) -> Result<(), Failure> {
        if self.totals.bytes == 0 && self.totals.calls == 0 {
            tracing::info!("Nothing new.");
            return Ok(());
        }
        emit::record(self.dir, self.summary())?;
        let Totals { calls, files, .. } = self.totals;
        let open = self.calls.open();
        tracing::info!(
            "Calls appended: {calls}, without a result yet: {open}; files read: {files}."
        );
        self.totals = Totals::default();
        Ok(())
    }

    /// Keeps the state when it changed. What was to be reported was, before.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn keep(&mut self) -> Result<(), Failure> {
        if !std::mem::take(&mut self.changed) {
            return Ok(());
        }
        self.calls.put_back(std::mem::take(&mut self.aside));
        self.calls.forget(now());
        save(self.dir, self.fingerprint, &self.files, self.calls.kept()).map_err(Failure::failed)
    }

    fn summary(&self) -> Kind {
        let totals = &self.totals;
        Kind::IngestRun {
            files: totals.files,
            read_bytes: totals.bytes,
            calls: totals.calls,
            open: self.calls.open(),
            bad_lines: totals.bad_lines,
            salvaged: totals.salvaged,
            warnings: totals.warnings,
            ms: u64::try_from(totals.spent.as_millis()).unwrap_or(u64::MAX),
        }
    }
}
