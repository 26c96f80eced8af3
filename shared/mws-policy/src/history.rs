//! What each tool was used for, in the form that decisions and replay read.
//!
//! Invariant: a pure view of the counted calls, the pins and the catalog; times ascend.
//! Deliberately absent: thresholds. One history serves every policy.

use std::collections::{BTreeMap, HashMap};

use mws_event::{Timestamp, Via};

use crate::{CountedCall, Pins};

/// The tools that the upstream lists, by name.
pub type Offers = BTreeMap<String, Offer>;

/// A tool that can be listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// What listing it costs, at least 1.
    pub tokens: u64,
    /// Hash of its definition.
    pub hash: String,
}

/// The whole use of all tools that were called or are pinned.
#[derive(Debug)]
pub struct History<'a> {
    /// By name.
    pub tools: Vec<Track<'a>>,
    /// When each session made its first call, ascending.
    pub sessions: Vec<Timestamp>,
    /// What one search costs.
    pub search_tokens: u64,
    /// Whether the catalog is known.
    pub has_catalog: bool,
    /// Where the history ends.
    pub as_of: Timestamp,
}

/// The use of one tool.
#[derive(Debug, Default)]
pub struct Track<'a> {
    /// Upstream name.
    pub name: &'a str,
    /// Successful calls, by time; their sessions are numbered from 0 within the tool.
    pub successes: Vec<Success>,
    /// Sessions with a success.
    pub sessions: u32,
    /// The first success in each session, by time.
    pub uses: Vec<Timestamp>,
    /// Number of failed calls.
    pub failed: u64,
    /// How the calls reached the tool.
    pub reached: Reached,
    /// Who pins it.
    pub pin: Option<Pin<'a>>,
    /// What the catalog says of it.
    pub offer: Option<&'a Offer>,
    /// Calls by day.
    pub days: Vec<DayOfTool>,
}

/// A successful call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Success {
    /// When it began.
    pub ts: Timestamp,
    /// Number of its session.
    pub session: u32,
}

/// How calls reached their tool. A transcript knows of `call_tool`, not of what was listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Reached {
    /// Named, and listed.
    pub listed: u64,
    /// Through `call_tool`.
    pub call_tool: u64,
    /// Named, though not listed.
    pub direct: u64,
    /// Named, and seen by no proxy.
    pub unknown: u64,
}

/// Who wants a tool listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin<'a> {
    /// The configuration: always.
    Config,
    /// The front matter of this file: while it is used.
    File(&'a str),
}

/// The calls of a tool on one day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DayOfTool {
    /// Days since the Unix epoch.
    pub day: i64,
    /// All calls.
    pub calls: u64,
    /// Calls that were not made because the tool was listed.
    pub not_listed: u64,
    /// Calls that were the first of the tool in their session.
    pub first: u64,
}

impl<'a> History<'a> {
    /// Sorts what `calls`, which go by time, say of each tool.
    pub fn of(
        calls: &[CountedCall<'a>],
        pins: &'a Pins,
        catalog: Option<&'a Offers>,
        search_tokens: u64,
        as_of: Timestamp,
    ) -> Self {
        let mut tools = Tools::default();
        let mut sessions = HashMap::new();
        for call in calls {
            sessions.entry(call.session).or_insert(call.ts);
            tools.take_in(call);
        }
        let mut tools = tools.tracks;
        for (tool, pin) in owners(pins) {
            tools.entry(tool).or_default().pin = Some(pin);
        }
        let mut tools: Vec<Track<'a>> =
            tools.into_iter().map(|(name, track)| Track { name, ..track }).collect();
        tools.sort_unstable_by_key(|track| track.name);
        for track in &mut tools {
            track.offer = catalog.and_then(|offers| offers.get(track.name));
            track.days.shrink_to_fit();
            track.successes.shrink_to_fit();
        }
        let mut sessions: Vec<Timestamp> = sessions.into_values().collect();
        sessions.sort_unstable();
        Self { tools, sessions, search_tokens, has_catalog: catalog.is_some(), as_of }
    }

    /// Whether the upstream does not list the tool.
    pub fn is_gone(&self, track: &Track<'_>) -> bool {
        self.has_catalog && track.offer.is_none()
    }
}

impl Track<'_> {
    /// Time of the last success.
    pub fn last_ok(&self) -> Option<Timestamp> {
        self.successes.last().map(|s| s.ts)
    }

    /// The successes at or after `from`.
    pub fn since(&self, from: Timestamp) -> &[Success] {
        &self.successes[self.successes.partition_point(|s| s.ts < from)..]
    }
}

/// Number of times from `from` until before `to`.
pub(crate) fn between(times: &[Timestamp], from: Timestamp, to: Timestamp) -> u64 {
    let before = |t: Timestamp| times.partition_point(|time| *time < t);
    before(to).saturating_sub(before(from)) as u64
}

#[derive(Default)]
struct Tools<'a> {
    tracks: HashMap<&'a str, Track<'a>>,
    /// By tool and session: the number of that session within the tool, once it had a success.
    sessions: HashMap<(&'a str, u32), Option<u32>>,
}

impl<'a> Tools<'a> {
    fn take_in(&mut self, call: &CountedCall<'a>) {
        let track = self.tracks.entry(call.tool).or_default();
        let seen = self.sessions.get(&(call.tool, call.session)).copied();
        track.count(call, seen.is_none());
        if !call.ok {
            track.failed += 1;
            self.sessions.entry((call.tool, call.session)).or_default();
            return;
        }
        let session = seen.flatten().unwrap_or_else(|| {
            track.uses.push(call.ts);
            track.sessions += 1;
            self.sessions.insert((call.tool, call.session), Some(track.sessions - 1));
            track.sessions - 1
        });
        track.successes.push(Success { ts: call.ts, session });
    }
}

impl Track<'_> {
    fn count(&mut self, call: &CountedCall<'_>, is_first: bool) {
        let day = call.ts.day();
        if self.days.last().is_none_or(|last| last.day != day) {
            self.days.push(DayOfTool { day, ..DayOfTool::default() });
        }
        let is_listed = call.proxied && call.via == Via::Listed;
        if let Some(last) = self.days.last_mut() {
            last.calls += 1;
            last.not_listed += u64::from(!is_listed);
            last.first += u64::from(is_first);
        }
        *match (call.via, call.proxied) {
            (Via::CallTool, _) => &mut self.reached.call_tool,
            (_, false) => &mut self.reached.unknown,
            (Via::Listed, true) => &mut self.reached.listed,
            (Via::Direct, true) => &mut self.reached.direct,
        } += 1;
    }
}

/// Who pins each tool: the configuration before files, of files the first by name.
fn owners(pins: &Pins) -> BTreeMap<&str, Pin<'_>> {
    let mut files: Vec<_> = pins.files.iter().collect();
    files.sort_unstable_by(|a, b| b.cmp(a));
    let by_file = files.into_iter().map(|pin| (pin.tool.as_str(), Pin::File(&pin.file)));
    let by_config = pins.config.iter().map(|tool| (tool.as_str(), Pin::Config));
    by_file.chain(by_config).collect()
}
