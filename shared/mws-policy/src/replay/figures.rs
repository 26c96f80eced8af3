//! What a walk led to: hit rate, cost, and how often the set changed its mind.
//!
//! Invariant: sums of whole numbers; a rate is made of them last.
//! Deliberately absent: the first call that a session makes of `tools/list`; a listing is counted
//! once for each session, on the day of its first call.

use std::ops::Range;

use mws_event::Timestamp;

use super::walk::has;
use super::{Replay, Walk};

/// The figures of one policy over the whole history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Days walked.
    pub days: u64,
    /// Sessions begun on them.
    pub sessions: u64,
    /// Calls made on them.
    pub calls: u64,
    /// Calls whose tool was listed since before the day began.
    pub hits: u64,
    /// Calls that were not made because the tool was really listed.
    pub calls_not_listed: u64,
    /// Hits among these.
    pub hits_not_listed: u64,
    /// Sum of listed tools over the days.
    pub tool_days: u64,
    /// Sum of listed tokens over the days; none without a catalog.
    pub token_days: Option<u64>,
    /// Tokens of the listing, once for each session; none without a catalog.
    pub list_tokens: Option<u64>,
    /// Searches: unlisted tools, once in each session.
    pub searches: u64,
    /// Tokens of these searches.
    pub search_tokens: u64,
    /// Times that a tool came in.
    pub promoted: u64,
    /// Times that a tool went out.
    pub demoted: u64,
    /// Times that a tool came in again.
    pub flaps: u64,
    /// Times that a tool went out and was called before it came in again, if ever.
    pub regrets: u64,
}

/// One day, or the end of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Day<'a> {
    /// Its first moment.
    pub ts: Timestamp,
    /// Tools that came in, each with whether a pin brought it in.
    pub promoted: Vec<(&'a str, bool)>,
    /// Tools that stayed.
    pub kept: Vec<&'a str>,
    /// Tools that went out.
    pub demoted: Vec<&'a str>,
    /// Tokens of the set; none without a catalog.
    pub tokens: Option<u64>,
    /// Calls of the day.
    pub calls: u64,
    /// Calls whose tool is in the set.
    pub hits: u64,
}

impl Figures {
    /// Calls that needed a search or `call_tool`.
    pub fn extra_hops(&self) -> u64 {
        self.calls - self.hits
    }
}

impl<'a> Day<'a> {
    /// The set, by name.
    pub fn listed(&self) -> Vec<&'a str> {
        let promoted = self.promoted.iter().map(|(tool, _)| *tool);
        let mut names: Vec<&str> = promoted.chain(self.kept.iter().copied()).collect();
        names.sort_unstable();
        names
    }
}

impl<'a> Replay<'a> {
    /// Sums up a walk.
    pub fn figures(&self, walk: &Walk) -> Figures {
        let all = 0..self.days();
        let mut f = Figures {
            days: self.days() as u64,
            sessions: self.sessions.iter().sum(),
            ..Figures::default()
        };
        let mut tokens_by_day = vec![0; self.days() + 1];
        for (tool, listed) in self.tools.iter().zip(&walk.listed) {
            let total = tool.on(&all);
            f.calls += total.calls;
            f.calls_not_listed += total.not_listed;
            f.searches += total.first;
            for range in listed {
                let days = range.start..range.end.min(self.days());
                let hit = tool.on(&days);
                f.hits += hit.calls;
                f.hits_not_listed += hit.not_listed;
                f.searches -= hit.first;
                f.tool_days += days.len() as u64;
                let tokens = tool.track.offer.map_or(0, |offer| i128::from(offer.tokens));
                tokens_by_day[days.start] += tokens;
                tokens_by_day[days.end] -= tokens;
            }
            f.promoted += listed.len() as u64;
            f.flaps += (listed.len() as u64).saturating_sub(1);
            let outs = self.outs(listed);
            f.demoted += outs.len() as u64;
            f.regrets += outs.iter().filter(|out| tool.on(out).calls > 0).count() as u64;
        }
        f.search_tokens = f.searches.saturating_mul(self.history.search_tokens);
        if self.history.has_catalog {
            let (per_day, per_session) = self.token_sums(&tokens_by_day);
            f.token_days = u64::try_from(per_day).ok();
            f.list_tokens = u64::try_from(per_session).ok();
        }
        f
    }

    /// Listed tokens summed over days and over sessions, from how they change each day.
    fn token_sums(&self, changes: &[i128]) -> (i128, i128) {
        let (mut tokens, mut per_day, mut per_session) = (0, 0, 0);
        for (change, sessions) in changes.iter().zip(&self.sessions) {
            tokens += change;
            per_day += tokens;
            per_session += tokens * i128::from(*sessions);
        }
        (per_day, per_session)
    }

    /// The times out between and after the times in.
    fn outs(&self, listed: &[Range<usize>]) -> Vec<Range<usize>> {
        let next = listed.iter().skip(1).map(|range| range.start);
        let ends = listed.iter().map(|range| range.end);
        let outs = ends.zip(next.chain([self.moments.len()]));
        outs.filter(|(from, to)| from < to).map(|(from, to)| from..to.min(self.days())).collect()
    }

    /// The days of a walk, and last the end of the history.
    pub fn story(&self, walk: &Walk) -> Vec<Day<'a>> {
        let day = |(i, ts): (usize, &Timestamp)| {
            let mut day = Day {
                ts: *ts,
                promoted: Vec::new(),
                kept: Vec::new(),
                demoted: Vec::new(),
                tokens: self.history.has_catalog.then_some(0),
                calls: 0,
                hits: 0,
            };
            for ((tool, listed), pinned) in self.tools.iter().zip(&walk.listed).zip(&walk.pinned) {
                let calls = tool.on(&(i..i + 1)).calls;
                day.calls += calls;
                let is_in = has(listed, i);
                let was_in = i > 0 && has(listed, i - 1);
                if is_in {
                    day.hits += calls;
                    let tokens = tool.track.offer.map_or(0, |offer| offer.tokens);
                    day.tokens = day.tokens.map(|sum| sum + tokens);
                }
                match (was_in, is_in) {
                    (false, true) => day.promoted.push((tool.track.name, has(pinned, i))),
                    (true, true) => day.kept.push(tool.track.name),
                    (true, false) => day.demoted.push(tool.track.name),
                    (false, false) => {}
                }
            }
            day
        };
        self.moments.iter().enumerate().map(day).collect()
    }
}

/// For each policy whether no other lists as little or less with as many hits or more, one of them
/// truly: the efficient ones. Tokens are compared, where there is no catalog tools.
pub fn frontier(all: &[Figures]) -> Vec<bool> {
    let cost = |f: &Figures| f.token_days.unwrap_or(f.tool_days);
    let beats = |a: &Figures, b: &Figures| {
        a.hits >= b.hits && cost(a) <= cost(b) && (a.hits > b.hits || cost(a) < cost(b))
    };
    all.iter().map(|f| !all.iter().any(|other| beats(other, f))).collect()
}
