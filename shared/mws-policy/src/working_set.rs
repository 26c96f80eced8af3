//! `working-set.json`: which tools are listed, why, by which thresholds, and from how much log.
//!
//! Invariant: equal decisions give equal bytes; no wall time is in it.
//! Deliberately absent: the proxy's reader, which takes names only and keeps its own tree small.

use mws_config::{Rule, Thresholds};
use mws_event::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Decision, Through, Verdict};

/// The artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingSet {
    /// Version of the format.
    #[serde(default = "first_version")]
    pub v: u32,
    /// The listed tools; by name when written by us.
    #[serde(deserialize_with = "entries")]
    pub tools: Vec<Listed>,
    /// The thresholds used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thresholds: Option<Used>,
    /// The last event folded; none when no call was counted.
    #[serde(default)]
    pub through: Option<Through>,
    /// True while no tool has been promoted yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cold: bool,
    /// Tools that are kept out because their definition changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Held>,
}

/// A tool whose present definition is not the accepted one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Upstream name.
    pub name: String,
    /// Hash of the accepted definition.
    pub hash: String,
}

/// One listed tool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Upstream name.
    pub name: String,
    /// `pinned`, `promoted` or `kept`; empty in a set written by hand as names.
    #[serde(default)]
    pub why: String,
    /// Distinct sessions with a success, over all history.
    #[serde(default)]
    pub sessions: u64,
    /// Successful calls, over all history.
    #[serde(default)]
    pub calls: u64,
    /// Time of the last success.
    #[serde(default)]
    pub last_ok: Option<Timestamp>,
    /// Hash of the definition that was listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// Thresholds under their names in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Used {
    min_sessions: u32,
    min_calls: u32,
    window_days: u32,
    keep_days: u32,
    pin_decay_days: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache_discount: Option<u32>,
}

impl From<&Thresholds> for Used {
    /// What stands at its default beyond the five thresholds is left out.
    fn from(thresholds: &Thresholds) -> Self {
        Self {
            min_sessions: thresholds.min_sessions,
            min_calls: thresholds.min_calls,
            window_days: thresholds.window_days,
            keep_days: thresholds.keep_days,
            pin_decay_days: thresholds.pin_decay_days,
            policy: Some(thresholds.rule)
                .filter(|rule| *rule != Rule::default())
                .map(|rule| rule.to_string()),
            max_tokens: thresholds.max_tokens,
            cache_discount: Some(thresholds.cache_discount).filter(|percent| *percent > 0),
        }
    }
}

impl WorkingSet {
    /// The set that `decisions` make.
    pub fn new(decisions: &[Decision], thresholds: &Thresholds, through: Option<Through>) -> Self {
        let listed = decisions.iter().filter(|d| d.verdict.is_listed()).map(|d| Listed {
            name: d.tool.clone(),
            why: d.verdict.to_string(),
            sessions: d.sessions,
            calls: d.calls,
            last_ok: d.last_ok,
            hash: d.hash.clone(),
        });
        let held = decisions.iter().filter(|d| d.verdict == Verdict::Changed);
        let held = held.filter_map(|d| Some(Held { name: d.tool.clone(), hash: d.hash.clone()? }));
        Self {
            v: first_version(),
            tools: listed.collect(),
            thresholds: Some(thresholds.into()),
            through,
            cold: !decisions.iter().any(|d| d.was_promoted),
            held: held.collect(),
        }
    }

    /// Reads an artifact, or `{"tools":["name", …]}`.
    ///
    /// # Errors
    /// Says where the text is not one.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|e| format!("not a working set: {e}"))
    }

    /// The artifact's bytes: one line of JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Only maps with odd keys and failing writers make serialisation fail; there are none here.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.name.as_str())
    }
}

fn first_version() -> u32 {
    1
}

fn entries<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Vec<Listed>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Entry {
        Name(String),
        Full(Listed),
    }
    let listed = |entry| match entry {
        Entry::Name(name) => Listed { name, ..Listed::default() },
        Entry::Full(listed) => listed,
    };
    Ok(Vec::<Entry>::deserialize(d)?.into_iter().map(listed).collect())
}
