//! The search index in force: the published snapshot when it fits the catalog, else one built here.
//!
//! Invariant: search never depends on a published snapshot, and a damaged one changes nothing.
//! Deliberately absent: ranking; see `mws_search`.

use std::sync::{Arc, Mutex, MutexGuard};

use mws_event::{Event, Kind, Record};
use mws_search::{Index, Options, Reply, Request};
use mws_state::{Recorder, StateDir, now, read_file};

use crate::catalog::Tools;
use crate::lock::lock;

const CURRENT_MAX: u64 = 1024;
const SNAPSHOT_MAX: u64 = 256 * 1024 * 1024;

/// Finds tools.
pub(crate) struct Finder {
    state: StateDir,
    options: Arc<Options>,
    /// Whether a snapshot may bring word vectors.
    vectors: bool,
    recorder: Arc<Recorder>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    index: Option<Arc<Index>>,
    /// The pointer that was looked at last.
    pointer: Vec<u8>,
}

impl Finder {
    pub(crate) fn new(
        state: StateDir,
        options: Options,
        vectors: bool,
        recorder: Arc<Recorder>,
    ) -> Self {
        Self { state, options: Arc::new(options), vectors, recorder, held: Mutex::default() }
    }

    /// The reply of `search_tools`.
    pub(crate) async fn search(
        &self,
        tools: &Arc<Tools>,
        request: &Request<'_>,
        listed: &(dyn Fn(&str) -> bool + Sync),
    ) -> Reply {
        let index = self.index(tools).await;
        mws_search::answer(&index, &tools.catalog, listed, request)
    }

    async fn index(&self, tools: &Arc<Tools>) -> Arc<Index> {
        self.take_published(tools.hash);
        let held = self.held().index.clone();
        if let Some(index) = held.filter(|index| self.fits(index, tools.hash)) {
            return index;
        }
        let (for_build, options) = (Arc::clone(tools), Arc::clone(&self.options));
        let build = move || Arc::new(Index::build(&for_build.catalog, &options));
        let index = tokio::task::spawn_blocking(build).await.unwrap_or_default();
        self.held().index = Some(Arc::clone(&index));
        index
    }

    fn fits(&self, index: &Index, catalog: u64) -> bool {
        index.catalog_hash() == catalog
            && index.options_hash() == self.options.hash()
            && (self.vectors || index.vectors_hash().is_none())
    }

    /// Looks at the pointer; a new snapshot that fits replaces what is held.
    fn take_published(&self, catalog: u64) {
        let path = self.state.index_current();
        let pointer = read_file(&path, CURRENT_MAX).map(|(bytes, _)| bytes).unwrap_or_default();
        if pointer == self.held().pointer {
            return;
        }
        self.held().pointer.clone_from(&pointer);
        if pointer.is_empty() {
            return;
        }
        let dir = self.state.index_dir();
        let read = |name: &str| read_file(&dir.join(name), SNAPSHOT_MAX).ok().map(|(b, _)| b);
        match mws_search::load(&read) {
            Ok(Some((_, index))) if self.fits(&index, catalog) => {
                self.held().index = Some(Arc::new(index));
            }
            // Another catalog's: its turn comes when the catalog does.
            Ok(Some(_)) => self.held().pointer.clear(),
            Ok(None) => {}
            Err(why) => {
                tracing::warn!("The search snapshot in {} is not used: {why}.", dir.display());
                let kind = Kind::ArtifactRejected { artifact: "index".into() };
                self.recorder.record(Event::Record(Record::new(now(), kind)));
            }
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.held)
    }
}
