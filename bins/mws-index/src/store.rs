//! Analysed tools, kept between runs in a sled database.
//!
//! Invariant: the store is a memory, never a source. A damaged one is made again and the run goes
//! on; on a full disk, where nothing could be published either, it stays as it is.
//! Deliberately absent: the snapshot; readers never open the database, which admits one process
//! only.

use std::collections::HashMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mws_catalog::{Backends, Catalog};
use mws_search::{Analyser, Document};

const CACHE: u64 = 16 << 20;
/// The database lets go of its lock a moment after it was closed.
const WAIT: Duration = Duration::from_millis(20);
const WAITS: u32 = 10;

/// The documents of a catalog, and how they came about.
#[derive(Debug, Default)]
pub(crate) struct Analysed {
    pub(crate) documents: Vec<Document>,
    /// Names that the last run did not have, that differ from it, and that are gone.
    pub(crate) added: usize,
    pub(crate) changed: usize,
    pub(crate) removed: usize,
    /// Documents that were made in this run.
    pub(crate) made: usize,
}

/// Why the store was of no use.
#[derive(Debug)]
enum Trouble {
    InUse,
    NoSpace(io::Error),
    Damaged(String),
}

/// Analyses a catalog; only what changed since the last run when the store at `path` knows it.
///
/// # Errors
/// When there is no space left for the store, which is kept.
pub(crate) fn analyse(catalog: &Catalog, path: &Path, full: bool) -> io::Result<Analysed> {
    let backends = Backends::of(catalog);
    if full {
        discard(path);
    }
    for _ in 0..2 {
        match quietly(|| with_store(catalog, &backends, path)) {
            Ok(analysed) => return Ok(analysed),
            Err(Trouble::InUse) => {
                tracing::warn!("the index store is in use; every tool is analysed anew.");
                break;
            }
            Err(Trouble::NoSpace(e)) => return Err(e),
            Err(Trouble::Damaged(reason)) => {
                tracing::warn!("the index store is damaged and made again: {reason}.");
                discard(path);
            }
        }
    }
    Ok(without_store(catalog, &backends))
}

/// Analyses every tool.
pub(crate) fn without_store(catalog: &Catalog, backends: &Backends) -> Analysed {
    let mut analyser = Analyser::default();
    let documents = catalog.tools().iter().map(|tool| analyser.document(tool, backends));
    let documents: Vec<Document> = documents.collect();
    let made = documents.len();
    Analysed { documents, added: made, made, ..Analysed::default() }
}

fn with_store(catalog: &Catalog, backends: &Backends, path: &Path) -> sled::Result<Analysed> {
    let config = sled::Config::new().path(path).mode(sled::Mode::LowSpace).cache_capacity(CACHE);
    let store = opened(&config)?;
    let (documents, names) = (store.open_tree("documents")?, store.open_tree("names")?);
    let mut known: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    for pair in &names {
        let (name, key) = pair?;
        known.insert(name.to_vec(), key.to_vec());
    }
    let (mut analysed, mut analyser) = (Analysed::default(), Analyser::default());
    for tool in catalog.tools() {
        let key = Document::key(tool, backends).to_be_bytes();
        let kept = documents.get(key)?.and_then(|bytes| Document::from_bytes(&bytes));
        let document = match kept.filter(|document| document.name() == tool.name()) {
            Some(document) => document,
            None => {
                analysed.made += 1;
                let document = analyser.document(tool, backends);
                documents.insert(key, document.to_bytes())?;
                document
            }
        };
        match known.remove(tool.name().as_bytes()) {
            Some(before) if before == key => {}
            Some(before) => {
                analysed.changed += 1;
                documents.remove(before)?;
                names.insert(tool.name(), &key)?;
            }
            None => {
                analysed.added += 1;
                names.insert(tool.name(), &key)?;
            }
        }
        analysed.documents.push(document);
    }
    for (name, key) in known {
        analysed.removed += 1;
        documents.remove(key)?;
        names.remove(name)?;
    }
    store.flush()?;
    Ok(analysed)
}

/// Opens the database, which another run may be about to close.
fn opened(config: &sled::Config) -> sled::Result<sled::Db> {
    for _ in 0..WAITS {
        match config.open() {
            Err(e) if is_locked(&e) => std::thread::sleep(WAIT),
            opened => return opened,
        }
    }
    config.open()
}

/// The lock's own error is inside the text of another.
fn is_locked(error: &sled::Error) -> bool {
    format!("{error:?}").contains("WouldBlock")
}

/// Runs what may panic on a damaged file without letting the panic be seen.
fn quietly<T>(work: impl FnOnce() -> sled::Result<T>) -> Result<T, Trouble> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let done = catch_unwind(AssertUnwindSafe(work));
    std::panic::set_hook(hook);
    match done {
        Ok(result) => result.map_err(Trouble::from),
        Err(_) => Err(Trouble::Damaged("it cannot be read at all".to_owned())),
    }
}

impl From<sled::Error> for Trouble {
    fn from(error: sled::Error) -> Self {
        match error {
            sled::Error::Io(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
                ) =>
            {
                Self::NoSpace(e.kind().into())
            }
            e if is_locked(&e) => Self::InUse,
            e => Self::Damaged(format!("{e} ({e:?})")),
        }
    }
}

/// Moves the store out of the way, then deletes it: a half-deleted one is never opened.
fn discard(path: &Path) {
    let aside: PathBuf = path.with_extension("discarded");
    for stale in [std::fs::remove_dir_all(&aside), std::fs::remove_file(&aside)] {
        drop(stale);
    }
    if std::fs::rename(path, &aside).is_ok() {
        for stale in [std::fs::remove_dir_all(&aside), std::fs::remove_file(&aside)] {
            drop(stale);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog(tools: &[(&str, &str)]) -> Catalog {
        let tools: Vec<String> = tools
            .iter()
            .map(|(name, text)| format!("{{\"name\":{name:?},\"description\":{text:?}}}"))
            .collect();
        Catalog::parse(format!("{{\"tools\":[{}]}}", tools.join(",")).as_bytes()).unwrap().0
    }

    fn counts(analysed: &Analysed) -> [usize; 4] {
        [analysed.made, analysed.added, analysed.changed, analysed.removed]
    }

    #[test]
    fn only_changed_tools_are_analysed_again() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("sled");
        let first = catalog(&[("a", "one"), ("b", "two"), ("c", "three")]);
        assert_eq!(counts(&analyse(&first, &path, false).unwrap()), [3, 3, 0, 0]);
        assert_eq!(counts(&analyse(&first, &path, false).unwrap()), [0, 0, 0, 0]);
        let second = catalog(&[("d", "four"), ("a", "one"), ("b", "TWO and a half")]);
        let analysed = analyse(&second, &path, false).unwrap();
        assert_eq!(counts(&analysed), [2, 1, 1, 1]);
        assert_eq!(analysed.documents, without_store(&second, &Backends::of(&second)).documents);
        assert_eq!(counts(&analyse(&second, &path, true).unwrap()), [3, 3, 0, 0]);
    }

    #[test]
    fn a_store_that_is_about_to_be_closed_is_waited_for() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("sled");
        let tools = catalog(&[("a", "one"), ("b", "two")]);
        let open = sled::open(&path).unwrap();
        let closing = std::thread::spawn(move || {
            std::thread::sleep(WAIT);
            drop(open);
        });
        assert_eq!(counts(&analyse(&tools, &path, false).unwrap()), [2, 2, 0, 0]);
        closing.join().unwrap();
        assert_eq!(counts(&analyse(&tools, &path, false).unwrap()), [0, 0, 0, 0]);
    }

    #[test]
    fn one_changed_tool_of_five_thousand_is_analysed_alone() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("sled");
        let names: Vec<String> =
            (0..5000).map(|at| format!("backend{}__tool_{at}", at % 40)).collect();
        let mut tools: Vec<(&str, &str)> =
            names.iter().map(|name| (name.as_str(), "Does one thing.")).collect();
        assert_eq!(counts(&analyse(&catalog(&tools), &path, false).unwrap()), [5000, 5000, 0, 0]);
        tools[2500].1 = "Does another.";
        let changed = catalog(&tools);
        let analysed = analyse(&changed, &path, false).unwrap();
        assert_eq!(counts(&analysed), [1, 0, 1, 0]);
        assert_eq!(analysed.documents, without_store(&changed, &Backends::of(&changed)).documents);
    }

    #[test]
    fn a_full_disk_is_no_damage() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("sled");
        std::fs::create_dir(&path).unwrap();
        std::os::unix::fs::symlink("/dev/full", path.join("db")).unwrap();
        let error = analyse(&catalog(&[("a", "one")]), &path, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(std::fs::symlink_metadata(path.join("db")).unwrap().is_symlink());
    }

    #[test]
    fn a_damaged_store_is_made_again() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("sled");
        let tools = catalog(&[("a", "one"), ("b", "two")]);
        analyse(&tools, &path, false).unwrap();
        for entry in std::fs::read_dir(&path).unwrap().flatten() {
            if entry.path().is_file() {
                let length = std::fs::metadata(entry.path()).unwrap().len();
                let mut noise = Vec::new();
                noise.resize(usize::try_from(length.min(4096)).unwrap(), 0x5a);
                mws_state::publish(&entry.path(), &noise).unwrap();
            }
        }
        assert_eq!(counts(&analyse(&tools, &path, false).unwrap()), [2, 2, 0, 0]);
        assert_eq!(counts(&analyse(&tools, &path, false).unwrap()), [0, 0, 0, 0]);

        std::fs::remove_dir_all(&path).unwrap();
        mws_state::publish(&path, b"a file in the way").unwrap();
        assert_eq!(analyse(&tools, &path, false).unwrap().documents.len(), 2);
        assert!(path.is_dir());
    }
}
