//! Noticing that something below some directories changed, without looking through them.
//!
//! Invariant: where the system cannot tell, or not for all of them, the answer is yes.
//! Deliberately absent: what changed; a pass over all files finds that out.

use std::path::PathBuf;

/// A watch over directories.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct Watch {
    fd: Option<rustix::fd::OwnedFd>,
    known: std::collections::HashSet<i32>,
    missed: bool,
}

#[cfg(target_os = "linux")]
impl Watch {
    /// Watches nothing yet.
    pub(crate) fn new() -> Self {
        use rustix::fs::inotify::{CreateFlags, init};
        let fd = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok();
        Self { fd, known: std::collections::HashSet::new(), missed: true }
    }

    /// Watches `dirs`, too. True when some of them are new, so that what happened in them since
    /// they were looked through was missed.
    pub(crate) fn add(&mut self, dirs: &[PathBuf]) -> bool {
        use rustix::fs::inotify::{WatchFlags, add_watch};
        let Some(fd) = &self.fd else { return false };
        let flags = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO;
        let (mut news, mut missed) = (false, false);
        for dir in dirs {
            match add_watch(fd, dir.as_path(), flags) {
                Ok(watch) => news |= self.known.insert(watch),
                Err(rustix::io::Errno::NOENT) => news = true,
                Err(_) => missed = true,
            }
        }
        self.missed = missed;
        news
    }

    /// Whether all directories are watched.
    pub(crate) fn is_complete(&self) -> bool {
        self.fd.is_some() && !self.missed
    }

    /// Whether something changed since this was last asked.
    pub(crate) fn changed(&self) -> bool {
        let Some(fd) = self.fd.as_ref().filter(|_| !self.missed) else { return true };
        let mut buffer = [0; 4096];
        let mut changed = false;
        while rustix::io::read(fd, &mut buffer).is_ok_and(|len| len > 0) {
            changed = true;
        }
        changed
    }
}

/// Here the system is not asked.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(crate) struct Watch;

#[cfg(not(target_os = "linux"))]
impl Watch {
    /// Watches nothing.
    pub(crate) fn new() -> Self {
        Self
    }

    /// Nothing to be missed where everything is.
    pub(crate) fn add(&mut self, _: &[PathBuf]) -> bool {
        false
    }

    /// Never.
    pub(crate) fn is_complete(&self) -> bool {
        false
    }

    /// Perhaps.
    pub(crate) fn changed(&self) -> bool {
        true
    }
}
