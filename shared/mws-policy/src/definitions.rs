//! Which definition of a tool was accepted, and which other ones were told.
//!
//! Invariant: the last accepted one holds, in whatever order the lines come.
//! Deliberately absent: `as_of`. What is trusted is a state of today, not of the past.

use std::collections::BTreeMap;

use mws_event::{Kind, Timestamp};

/// What the log says of the definitions of tools.
#[derive(Debug, Default)]
pub struct Definitions {
    notes: Vec<Note>,
}

#[derive(Debug)]
struct Note {
    tool: String,
    ts: Timestamp,
    hash: String,
    is_pin: bool,
}

impl Definitions {
    /// The hash of the definition that was accepted last.
    pub fn pinned(&self, tool: &str) -> Option<&str> {
        self.last_pin(tool).map(|pin| pin.hash.as_str())
    }

    /// Since when that one is accepted.
    pub fn pinned_at(&self, tool: &str) -> Option<Timestamp> {
        self.last_pin(tool).map(|pin| pin.ts)
    }

    /// Whether it was told, since then, that the definition is now the one with this hash.
    pub fn is_told(&self, tool: &str, hash: &str) -> bool {
        let since = self.pinned_at(tool);
        let is_it = |note: &&Note| note.tool == tool && note.hash == hash && !note.is_pin;
        self.notes.iter().filter(is_it).any(|note| since.is_none_or(|since| note.ts >= since))
    }

    /// Every time that another definition was seen or accepted, by time.
    pub(crate) fn of_tool(&self, tool: &str) -> Vec<(Timestamp, &str, bool)> {
        let own = self.notes.iter().filter(|note| note.tool == tool);
        let mut told: Vec<_> = own.map(|n| (n.ts, n.hash.as_str(), n.is_pin)).collect();
        told.sort_unstable();
        told.dedup();
        told
    }

    /// The definition that was accepted last, for each tool: name, time, hash.
    pub(crate) fn pins(&self) -> impl Iterator<Item = (&str, Timestamp, &str)> {
        let mut last = BTreeMap::new();
        for note in self.notes.iter().filter(|note| note.is_pin) {
            let pin = (note.ts, note.hash.as_str());
            let known = last.entry(note.tool.as_str()).or_insert(pin);
            *known = pin.max(*known);
        }
        last.into_iter().map(|(tool, (ts, hash))| (tool, ts, hash))
    }

    pub(crate) fn take_in(&mut self, ts: Timestamp, kind: &Kind) {
        let (tool, hash, is_pin) = match kind {
            Kind::DefinitionPinned { tool, hash } => (tool, hash, true),
            Kind::DefinitionChanged { tool, hash, .. } => (tool, hash, false),
            _ => return,
        };
        self.notes.push(Note { tool: tool.clone(), ts, hash: hash.clone(), is_pin });
    }

    fn last_pin(&self, tool: &str) -> Option<&Note> {
        let pins = self.notes.iter().filter(|note| note.is_pin && note.tool == tool);
        pins.max_by(|a, b| (a.ts, &a.hash).cmp(&(b.ts, &b.hash)))
    }
}
