//! Where everything is: one method for each path in the state directory.
//!
//! Invariant: [`StateDir::create`] leaves a private directory of ours or fails.
//! Deliberately absent: XDG look-up, which belongs to the configuration.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The root of the state directory.
#[derive(Debug, Clone)]
pub struct StateDir {
    root: PathBuf,
}

impl StateDir {
    /// The directory at `root`, which need not exist: readers see an empty state then.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Creates the directory and those inside it, 0700.
    ///
    /// # Errors
    /// When it cannot be created, is no directory, belongs to another user or is writable by
    /// others; the message names the path and the command that mends it.
    pub fn create(&self) -> io::Result<()> {
        for dir in [self.root.clone(), self.events_dir()] {
            private_dir(&dir)?;
        }
        Ok(())
    }

    /// The root itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `events/`: the segments of the log.
    pub fn events_dir(&self) -> PathBuf {
        self.root.join("events")
    }

    /// `calls.jsonl`: the log of the earlier version, read as the oldest segment.
    pub fn calls(&self) -> PathBuf {
        self.root.join("calls.jsonl")
    }

    /// `catalog.json`: the last good tool list of the upstream.
    pub fn catalog(&self) -> PathBuf {
        self.root.join("catalog.json")
    }

    /// `working-set.json`: the promoted and pinned names.
    pub fn working_set(&self) -> PathBuf {
        self.root.join("working-set.json")
    }

    /// `upstream.json`: the proxy's memory of how to talk to its upstream.
    pub fn upstream(&self) -> PathBuf {
        self.root.join("upstream.json")
    }

    /// `index/`: the search snapshots.
    pub fn index_dir(&self) -> PathBuf {
        self.root.join("index")
    }

    /// `index/CURRENT`: which snapshot is in force.
    pub fn index_current(&self) -> PathBuf {
        self.index_dir().join("CURRENT")
    }

    /// `ingest/`: what has been read of which transcript.
    pub fn ingest_dir(&self) -> PathBuf {
        self.root.join("ingest")
    }
}

/// Creates `dir` with mode 0700 or checks that it is private and ours.
///
/// # Errors
/// As [`StateDir::create`].
pub(crate) fn private_dir(dir: &Path) -> io::Result<()> {
    let explain = |what: String| io::Error::other(format!("{}: {what}", dir.display()));
    match std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir) {
        Ok(()) => {}
        Err(e) => return Err(explain(format!("cannot create the directory: {e}"))),
    }
    let meta = std::fs::metadata(dir)?;
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(explain(format!("belongs to user {}, not to you", meta.uid())));
    }
    if meta.mode() & 0o022 != 0 {
        let path = dir.display();
        return Err(explain(format!("others may write to it; mend with: chmod go-w {path}")));
    }
    Ok(())
}

/// Checks that nobody but us and root can have written this file.
///
/// # Errors
/// Names the file or its directory, and the command that mends it.
pub fn check_trusted(file: &Path) -> Result<(), String> {
    const STICKY: u32 = 0o1000;
    let own = rustix::process::geteuid().as_raw();
    let read =
        |path: &Path| std::fs::metadata(path).map_err(|e| format!("{}: {e}", path.display()));
    let (path, meta) = (file.display(), read(file)?);
    if own != 0 && ![own, 0].contains(&meta.uid()) {
        return Err(format!("{path}: belongs to user {}, not to you", meta.uid()));
    }
    if meta.is_file() && meta.mode() & 0o002 != 0 {
        return Err(format!("{path}: anybody may write to it; mend with: chmod o-w {path}"));
    }
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mode = read(dir)?.mode();
    if mode & 0o002 != 0 && mode & STICKY == 0 {
        let dir = dir.display();
        return Err(format!("{dir}: anybody may replace files in it; mend with: chmod o-w {dir}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn a_file_that_others_may_write_is_not_trusted() {
        let tmp = tempfile::tempdir().expect("a directory");
        let file = tmp.path().join("config.json");
        std::fs::write(&file, "{}").expect("written");
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("chmod");
        };
        for (bits, fits) in [(0o600, true), (0o664, true), (0o666, false)] {
            mode(&file, bits);
            let checked = check_trusted(&file);
            assert_eq!(checked.is_ok(), fits, "{bits:o}");
            assert!(checked.is_ok() || checked.is_err_and(|why| why.contains("chmod o-w")));
        }
        mode(&file, 0o600);
        mode(tmp.path(), 0o777);
        assert!(check_trusted(&file).is_err(), "others may replace it");
        mode(tmp.path(), 0o1777);
        assert!(check_trusted(&file).is_ok());
        assert!(check_trusted(Path::new("/dev/null")).is_ok());
    }

    #[test]
    fn a_directory_open_to_others_is_refused_with_the_mending_command() {
        let tmp = tempfile::tempdir().expect("a directory");
        let root = tmp.path().join("deep/state");
        let state = StateDir::at(&root);
        state.create().expect("created");
        assert_eq!(std::fs::metadata(&root).expect("there").mode() & 0o777, 0o700);
        std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o777)).expect("chmod");
        let error = state.create().expect_err("refused").to_string();
        assert!(error.contains("chmod go-w"), "{error}");
    }
}
