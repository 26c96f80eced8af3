//! Tools whose definition is another one than was accepted when they were promoted.
//!
//! Invariant: with `block` such a tool is called neither by its name nor through `call_tool`; each
//! change is told once.
//! Deliberately absent: accepting. `mws promote --accept` does that.

use std::collections::BTreeMap;
use std::sync::Arc;

use mws_config::OnChange;
use mws_event::Kind;

use crate::catalog::Tools;
use crate::listing::Listing;
use crate::proxy::Proxy;
use crate::rpc::Era;
use crate::working_set::WorkingSet;

/// A definition that changed: its hash now, and the accepted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    now: u64,
    accepted: u64,
}

/// The changed tools of the working set, by name.
pub(crate) fn changes(tools: &Tools, set: &WorkingSet) -> BTreeMap<String, Change> {
    let change = |(name, accepted): (&String, &u64)| {
        let now = tools.catalog.get(name)?.hash();
        let change = Change { now, accepted: *accepted };
        (now != *accepted).then(|| (name.clone(), change))
    };
    set.accepted.iter().filter_map(change).collect()
}

impl Proxy {
    /// Why the tool may not be called, if it may not. The list is renewed when it is old, so that
    /// a change does not wait for a client that lists.
    pub(crate) async fn blocked(self: &Arc<Self>, name: &str, era: Era) -> Option<String> {
        if self.rules.on_change != OnChange::Block {
            return None;
        }
        let tools = self.shelf.get(era).await;
        let is_changed = self.listing(tools.as_ref()).changed.contains_key(name);
        is_changed.then(|| {
            format!(
                "The tool {name:?} is blocked: its definition changed since it was accepted. \
                 Its user can look at it and accept it: mws promote --accept {name}"
            )
        })
    }

    /// Warns and records what changed since the listing before.
    pub(crate) fn tell_changes(&self, before: Option<&Listing>, now: &Listing) {
        for (tool, change) in &now.changed {
            if before.is_some_and(|before| before.changed.get(tool) == Some(change)) {
                continue;
            }
            let then = match self.rules.on_change {
                OnChange::Warn => "it is listed as it is now",
                OnChange::Unlist => "it is not listed",
                OnChange::Block => "it is neither listed nor called",
            };
            tracing::warn!("The definition of {tool:?} changed since it was accepted; {then}.");
            self.record(Kind::DefinitionChanged {
                tool: tool.clone(),
                hash: format!("{:016x}", change.now),
                pinned: format!("{:016x}", change.accepted),
            });
        }
    }
}
