//! Finding transcripts below the roots.
//!
//! Invariant: a file is found once, under its canonical path, however many links and roots lead
//! to it; nothing but regular files is ever opened.
//! Deliberately absent: reading what is found.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::sources::Source;
use crate::state::Stamp;

/// So few directories are looked through one after the other.
const FEW: usize = 16;

/// A directory or file to start from.
#[derive(Debug)]
pub(crate) struct Root {
    /// Whose transcripts are there.
    pub(crate) source: &'static Source,
    /// Where.
    pub(crate) path: PathBuf,
}

/// A transcript.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// Canonical path.
    pub(crate) path: PathBuf,
    /// Hash of it, under which the state knows the file.
    pub(crate) key: u128,
    /// Hash of the root below which it was found.
    pub(crate) root: u64,
    /// The file as it is now.
    pub(crate) stamp: Stamp,
    /// Whose it is.
    pub(crate) source: &'static Source,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Walk {
    /// Transcripts.
    pub(crate) files: Vec<Found>,
    /// Where files were looked for.
    pub(crate) dirs: Vec<PathBuf>,
    /// Canonical roots.
    roots: Vec<PathBuf>,
    /// What could not be looked at, one sentence each.
    pub(crate) warnings: Vec<String>,
}

impl Walk {
    /// Hashes of the roots.
    pub(crate) fn root_hashes(&self) -> HashSet<u64> {
        self.roots.iter().map(|root| xxh3_64(root.as_os_str().as_bytes())).collect()
    }
}

/// Looks through `roots`, in order.
pub(crate) fn walk(roots: &[Root]) -> Walk {
    let mut walker = Walker::default();
    for root in roots {
        match fs::canonicalize(&root.path) {
            Ok(path) => {
                walker.root = xxh3_64(path.as_os_str().as_bytes());
                walker.found.roots.push(path.clone());
                for below in (root.source.narrow)(&path) {
                    let name = if below == path { root.path.file_name() } else { None };
                    walker.visit(root.source, &below, name);
                }
            }
            Err(e) => {
                walker.found.roots.push(root.path.clone());
                walker.warn(&root.path, &e);
            }
        }
    }
    // Links come last, so that a file is known by its own place where that is below a root.
    while let Some((source, root, link)) = walker.links.pop() {
        walker.root = root;
        if let Ok(path) = fs::canonicalize(&link) {
            walker.visit(source, &path, link.file_name());
        }
    }
    drop_compressed_copies(&mut walker.found.files);
    walker.found
}

/// What may be said of a transcript's place: the name of the file, which is that of its session.
pub(crate) fn shown(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_file = [".jsonl", ".zst"].iter().any(|end| name.ends_with(end));
    if is_file { format!("transcript {name}") } else { "a directory of transcripts".to_owned() }
}

/// A client that compresses a file leaves the plain one in place until it is done.
fn drop_compressed_copies(files: &mut Vec<Found>) {
    let plain = |file: &Found| {
        let is_compressed = file.path.extension() == Some(OsStr::new("zst"));
        is_compressed.then(|| file.path.with_extension(""))
    };
    let wanted: HashSet<PathBuf> = files.iter().filter_map(plain).collect();
    if wanted.is_empty() {
        return;
    }
    let there: HashSet<PathBuf> =
        files.iter().filter(|file| wanted.contains(&file.path)).map(|f| f.path.clone()).collect();
    files.retain(|file| plain(file).is_none_or(|plain| !there.contains(&plain)));
}

/// What stands in a directory and is to be looked at.
struct Entry {
    path: PathBuf,
    /// `None` for a link.
    meta: Option<io::Result<Metadata>>,
}

/// The entries of `dir`, by name.
fn entries(source: &Source, dir: &Path) -> io::Result<Vec<Entry>> {
    let named = |entry: io::Result<fs::DirEntry>| entry.map(|entry| (entry.file_name(), entry));
    let mut all = fs::read_dir(dir)?.map(named).collect::<io::Result<Vec<_>>>()?;
    all.sort_unstable_by(|(a, _), (b, _)| a.as_bytes().cmp(b.as_bytes()));
    let mut entries = Vec::with_capacity(all.len());
    for (name, entry) in all {
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            entries.push(Entry { path: entry.path(), meta: None });
        } else if (source.wants)(&name, kind.is_dir()) {
            entries.push(Entry { path: entry.path(), meta: Some(entry.metadata()) });
        }
    }
    Ok(entries)
}

#[derive(Default)]
struct Walker {
    found: Walk,
    /// Hash of the root at hand.
    root: u64,
    links: Vec<(&'static Source, u64, PathBuf)>,
    seen: HashSet<(u64, u64)>,
    /// Directories are looked through once for each type.
    seen_dirs: HashSet<(&'static str, u64, u64)>,
}

impl Walker {
    /// Looks at a root, or at what the link `name` leads to.
    fn visit(&mut self, source: &'static Source, path: &Path, name: Option<&OsStr>) {
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => self.directories(source, path.to_owned(), &meta),
            Ok(meta) => {
                let names = [name, path.file_name()];
                if names.into_iter().flatten().any(|name| (source.wants)(name, false)) {
                    self.found.dirs.extend(path.parent().map(Path::to_owned));
                    self.file(source, path.to_owned(), &meta);
                }
            }
            Err(e) => self.warn(path, &e),
        }
    }

    /// Looks through directories, those of the same depth at the same time.
    fn directories(&mut self, source: &'static Source, top: PathBuf, meta: &Metadata) {
        if !self.is_new(source, meta) {
            return;
        }
        let mut level = vec![top];
        while !level.is_empty() {
            let listed: Vec<_> = match level.len() {
                0..FEW => level.iter().map(|dir| entries(source, dir)).collect(),
                _ => level.par_iter().map(|dir| entries(source, dir)).collect(),
            };
            let mut below = Vec::new();
            for (dir, listed) in level.into_iter().zip(listed) {
                match listed {
                    Ok(entries) => {
                        entries.into_iter().for_each(|e| self.entry(source, e, &mut below));
                    }
                    Err(e) => self.warn(&dir, &e),
                }
                self.found.dirs.push(dir);
            }
            level = below;
        }
    }

    fn entry(&mut self, source: &'static Source, entry: Entry, below: &mut Vec<PathBuf>) {
        match entry.meta {
            None => self.links.push((source, self.root, entry.path)),
            Some(Ok(meta)) if meta.is_dir() => {
                if self.is_new(source, &meta) {
                    below.push(entry.path);
                }
            }
            Some(Ok(meta)) => self.file(source, entry.path, &meta),
            Some(Err(e)) if e.kind() == io::ErrorKind::NotFound => {}
            Some(Err(e)) => self.warn(&entry.path, &e),
        }
    }

    fn is_new(&mut self, source: &'static Source, dir: &Metadata) -> bool {
        self.seen_dirs.insert((source.name, dir.dev(), dir.ino()))
    }

    fn file(&mut self, source: &'static Source, path: PathBuf, meta: &Metadata) {
        if meta.is_file() && self.seen.insert((meta.dev(), meta.ino())) {
            let key = xxh3_128(path.as_os_str().as_bytes());
            let (stamp, root) = (Stamp::of(meta), self.root);
            self.found.files.push(Found { path, key, root, stamp, source });
        }
    }

    /// Names of directories say what somebody works on, and stay out of warnings.
    fn warn(&mut self, path: &Path, error: &io::Error) {
        let is_root = self.found.roots.iter().any(|root| root == path);
        let what = if is_root { path.display().to_string() } else { shown(path) };
        self.found.warnings.push(format!("cannot look at {what}: {error}"));
    }
}
