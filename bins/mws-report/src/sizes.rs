//! How large the listing is against the full catalog.
//!
//! Invariant: what a client was really sent, as the last `list` event says, goes before what the
//! files would give. Deliberately absent: counting tokens ([`crate::tokens`]).

use mws_catalog::Catalog;
use mws_event::Timestamp;
use mws_policy::WorkingSet;
use serde::Serialize;

use crate::report::share;
use crate::tokens::Tokens;

/// A tool of the working set.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Listed {
    pub(crate) name: String,
    /// `pinned`, `promoted`, `kept`; empty in a set written by hand.
    pub(crate) why: String,
    /// Size of its definition; none when the catalog does not have it.
    pub(crate) bytes: Option<u64>,
    pub(crate) tokens_estimate: Option<u64>,
}

impl Listed {
    pub(crate) fn all(
        set: Option<&WorkingSet>,
        catalog: Option<&Catalog>,
        tokens: &Tokens,
    ) -> Vec<Self> {
        let tools = set.map_or(&[][..], |set| &set.tools);
        let listed = |tool: &mws_policy::Listed| {
            let raw = catalog.and_then(|catalog| Some(catalog.get(&tool.name)?.raw()));
            Self {
                name: tool.name.clone(),
                why: tool.why.clone(),
                bytes: raw.map(|raw| raw.len() as u64),
                tokens_estimate: raw.map(|raw| tokens.of_text(raw)),
            }
        };
        tools.iter().map(listed).collect()
    }
}

/// The last answer to `tools/list`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastList {
    pub(crate) ts: Timestamp,
    pub(crate) listed: u64,
    pub(crate) bytes: u64,
    pub(crate) catalog: u64,
    pub(crate) catalog_bytes: u64,
}

/// Sizes of the listing and of the catalog.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Sizes {
    /// When that listing was sent; none when no client has listed yet, and the sizes are those
    /// of the working set's definitions, without the two meta-tools.
    pub(crate) listed_at: Option<Timestamp>,
    pub(crate) listed_tools: u64,
    pub(crate) listed_bytes: u64,
    pub(crate) listed_tokens_estimate: u64,
    pub(crate) catalog_tools: u64,
    pub(crate) catalog_bytes: u64,
    pub(crate) catalog_tokens_estimate: u64,
    /// How tokens were counted: `bytes / 4` or the name of a tokenizer.
    pub(crate) tokens_by: &'static str,
    /// Share of the catalog's bytes that is not sent; negative when the listing is larger.
    pub(crate) saved: Option<f64>,
}

impl Sizes {
    pub(crate) fn of(
        working_set: &[Listed],
        catalog: Option<&Catalog>,
        last: Option<LastList>,
        tokens: &Tokens,
    ) -> Self {
        let sent = last.map(|list| (list.listed, list.bytes));
        let known: Vec<u64> = working_set.iter().filter_map(|tool| tool.bytes).collect();
        let (listed_tools, listed_bytes) = sent.unwrap_or_else(|| total(known.into_iter()));
        let (catalog_tools, catalog_bytes) = match (catalog, last) {
            (Some(catalog), _) => total(catalog.tools().iter().map(|t| t.raw().len() as u64)),
            (None, Some(list)) => (list.catalog, list.catalog_bytes),
            (None, None) => (0, 0),
        };
        Self {
            listed_at: last.map(|list| list.ts),
            listed_tools,
            listed_bytes,
            listed_tokens_estimate: tokens.of_bytes(listed_bytes),
            catalog_tools,
            catalog_bytes,
            catalog_tokens_estimate: tokens.of_bytes(catalog_bytes),
            tokens_by: tokens.by,
            saved: share(listed_bytes, catalog_bytes)
                .map(|sent| ((1.0 - sent) * 10_000.0).round() / 10_000.0),
        }
    }
}

/// Number, and bytes as a JSON array.
fn total(sizes: impl ExactSizeIterator<Item = u64>) -> (u64, u64) {
    let n = sizes.len() as u64;
    (n, sizes.sum::<u64>() + n.saturating_sub(1) + 2)
}
