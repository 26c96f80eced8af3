//! From history to a decision, with its reason, for each tool that was called or is pinned.
//!
//! Invariant: one decision a tool, by name. The reasons are tried in one order: not in the
//! catalog, definition not accepted, pinned by the configuration, pinned by a file and used,
//! chosen by the rule, and what is missing. The budget is cut last.
//! Deliberately absent: what was published before. The log alone decides.

use mws_config::{OnChange, Rule, Thresholds};
use mws_event::{DAY_MS, Timestamp};

use crate::estimate::{Wish, within};
use crate::history::{Pin, Reached};
use crate::membership::{Span, days_ms, member_spans};
use crate::{Definitions, Estimate, History, Track, Verdict};

/// Tools that somebody wants listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins {
    /// From the configuration: listed always.
    pub config: Vec<String>,
    /// From front matter: listed while they are used.
    pub files: Vec<FilePin>,
}

/// A tool named in the front matter of a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePin {
    /// The tool's upstream name.
    pub tool: String,
    /// The file, as to be shown.
    pub file: String,
}

/// What was decided about one tool, and on which figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Upstream name.
    pub tool: String,
    /// Whether it is listed, and why or why not.
    pub verdict: Verdict,
    /// Distinct sessions with a success, over all history.
    pub sessions: u64,
    /// Successful calls, over all history.
    pub calls: u64,
    /// Failed calls, over all history.
    pub failed: u64,
    /// Time of the last success.
    pub last_ok: Option<Timestamp>,
    /// Distinct sessions with a success in the last `windowDays`.
    pub window_sessions: u64,
    /// Successful calls in the last `windowDays`.
    pub window_calls: u64,
    /// How the calls reached the tool.
    pub reached: Reached,
    /// Who pins it: `config`, else the first file.
    pub pinned_by: Option<String>,
    /// Whole days until it would fall out without another success; none for a tool that no time
    /// limit keeps in.
    pub days_left: Option<i64>,
    /// Tokens that listing it costs, and what that is worth.
    pub estimate: Option<Estimate>,
    /// Whether its use brought it in at any time.
    pub was_promoted: bool,
    /// The hash of the definition that holds.
    pub hash: Option<String>,
    /// The hash of the present definition, when another one was accepted.
    pub changed_to: Option<String>,
}

/// Decides on every tool of `history`, by name, as at its end.
pub fn decide(
    history: &History<'_>,
    definitions: &Definitions,
    on_change: OnChange,
    thresholds: &Thresholds,
) -> Vec<Decision> {
    let judge = Judge { history, definitions, on_change, thresholds };
    let mut decisions: Vec<Decision> =
        history.tools.iter().map(|track| judge.decision(track)).collect();
    judge.cut(&mut decisions);
    decisions
}

struct Judge<'a> {
    history: &'a History<'a>,
    definitions: &'a Definitions,
    on_change: OnChange,
    thresholds: &'a Thresholds,
}

impl Judge<'_> {
    fn decision(&self, track: &Track<'_>) -> Decision {
        let t = self.thresholds;
        let window = track.since(self.days_back(t.window_days));
        let (window_sessions, window_calls) = (sessions(window, track), window.len() as u64);
        let estimate = Estimate::of(self.history, track, t, self.history.as_of);
        let span = member_spans(track, t).last().copied();
        let verdict = self.verdict(track, span, estimate.as_ref(), window_sessions, window_calls);
        let now = track.offer.map(|offer| &offer.hash);
        let pinned = self.definitions.pinned(track.name);
        let changed_to = now.filter(|now| pinned.is_some_and(|pinned| pinned != *now)).cloned();
        let hash = match (self.on_change, pinned) {
            (OnChange::Unlist | OnChange::Block, Some(pinned)) => Some(pinned.to_owned()),
            _ => now.cloned(),
        };
        Decision {
            tool: track.name.to_owned(),
            verdict,
            sessions: u64::from(track.sessions),
            calls: track.successes.len() as u64,
            failed: track.failed,
            last_ok: track.last_ok(),
            window_sessions,
            window_calls,
            reached: track.reached,
            pinned_by: track.pin.map(|pin| match pin {
                Pin::Config => "config".to_owned(),
                Pin::File(file) => file.to_owned(),
            }),
            days_left: self.days_left(track, verdict, span),
            estimate,
            was_promoted: match t.rule {
                Rule::Thresholds => span.is_some(),
                Rule::Value => verdict == Verdict::Promoted,
            },
            hash,
            changed_to,
        }
    }

    fn verdict(
        &self,
        track: &Track<'_>,
        span: Option<Span>,
        estimate: Option<&Estimate>,
        sessions: u64,
        calls: u64,
    ) -> Verdict {
        if self.history.is_gone(track) {
            return Verdict::NotInCatalog;
        }
        if is_held(track, self.definitions, self.on_change) {
            return Verdict::Changed;
        }
        let t = self.thresholds;
        let used_since = |days| track.last_ok().is_some_and(|last| last >= self.days_back(days));
        match track.pin {
            Some(Pin::Config) => return Verdict::Pinned,
            Some(Pin::File(_)) if used_since(t.pin_decay_days) => return Verdict::Pinned,
            _ => {}
        }
        let meets = sessions >= u64::from(t.min_sessions) && calls >= u64::from(t.min_calls);
        let is_in = match t.rule {
            Rule::Thresholds => span.is_some_and(|span| span.holds_at(self.history.as_of)),
            Rule::Value => estimate.is_some_and(Estimate::is_worth),
        };
        match (is_in, track.pin) {
            (true, _) if meets || t.rule == Rule::Value => Verdict::Promoted,
            (true, _) => Verdict::Kept,
            (false, Some(_)) => Verdict::StalePin,
            (false, None) => self.missing(track, span, estimate, sessions, calls),
        }
    }

    /// Why a tool that nobody pins is outside.
    fn missing(
        &self,
        track: &Track<'_>,
        span: Option<Span>,
        estimate: Option<&Estimate>,
        sessions: u64,
        calls: u64,
    ) -> Verdict {
        let Thresholds { min_sessions, min_calls, window_days, keep_days, .. } = *self.thresholds;
        let Some(last_ok) = track.last_ok() else { return Verdict::NoSuccess };
        if self.thresholds.rule == Rule::Value {
            let (saved, cost) = estimate.map_or((0, 0), |e| (e.saved, e.cost));
            return Verdict::NotWorth { saved, cost, window_days };
        }
        if span.is_some_and(|span| last_ok <= span.leave) {
            let days_ago = (self.history.as_of.unix_ms() - last_ok.unix_ms()) / DAY_MS;
            return Verdict::FellOut { last_ok, days_ago, keep_days };
        }
        if sessions < u64::from(min_sessions) {
            return Verdict::TooFewSessions { have: sessions, need: min_sessions, window_days };
        }
        Verdict::TooFewCalls { have: calls, need: min_calls, window_days }
    }

    fn days_left(&self, track: &Track<'_>, verdict: Verdict, span: Option<Span>) -> Option<i64> {
        if !verdict.is_listed() || track.pin == Some(Pin::Config) {
            return None;
        }
        let member = span.filter(|_| self.thresholds.rule == Rule::Thresholds).map(|s| s.leave);
        let pin = match (track.pin, track.last_ok()) {
            (Some(Pin::File(_)), Some(last)) => {
                Some(last.plus_ms(days_ms(self.thresholds.pin_decay_days)))
            }
            _ => None,
        };
        let leave = member.max(pin)?;
        Some((leave.unix_ms() - self.history.as_of.unix_ms()) / DAY_MS)
    }

    /// Takes out what is over the budget. Without a catalog no price is known, and nothing is cut.
    fn cut(&self, decisions: &mut [Decision]) {
        let Some(max_tokens) = self.thresholds.max_tokens else { return };
        let listed = decisions.iter().enumerate().filter(|(_, d)| d.verdict.is_listed());
        let wish = |(tool, d): (usize, &Decision)| {
            let is_pinned = d.verdict == Verdict::Pinned;
            Some(Wish { tool, is_pinned, estimate: d.estimate? })
        };
        let wishes: Vec<Wish> = listed.filter_map(wish).collect();
        let kept = within(max_tokens, wishes.clone());
        for wish in wishes.iter().filter(|wish| kept.binary_search(&wish.tool).is_err()) {
            let tokens = wish.estimate.tokens;
            decisions[wish.tool].verdict = Verdict::Cut { tokens, max_tokens };
            decisions[wish.tool].days_left = None;
        }
    }

    fn days_back(&self, days: u32) -> Timestamp {
        self.history.as_of.plus_ms(-days_ms(days))
    }
}

/// Whether a change of the definition keeps the tool out until somebody accepts it.
pub(crate) fn is_held(track: &Track<'_>, definitions: &Definitions, on_change: OnChange) -> bool {
    let pinned = definitions.pinned(track.name);
    on_change != OnChange::Warn
        && track.offer.is_some_and(|now| pinned.is_some_and(|pinned| pinned != now.hash))
}

/// Number of distinct sessions.
fn sessions(successes: &[crate::Success], track: &Track<'_>) -> u64 {
    let mut seen = vec![false; track.sessions as usize];
    let is_new = |s: &&crate::Success| !std::mem::replace(&mut seen[s.session as usize], true);
    successes.iter().filter(is_new).count() as u64
}
