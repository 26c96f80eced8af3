//! What listing a tool is worth: the searches it saves against the tokens it costs.
//!
//! Invariant: whole numbers, so that equal input gives equal choices. A tool is searched for once
//! in a session that needs it; a listing is paid for once in every session.
//! Deliberately absent: prices. What a cached prefix costs less is a percentage of the configuration.

use std::cmp::Ordering;

use mws_config::Thresholds;
use mws_event::Timestamp;

use crate::history::between;
use crate::membership::days_ms;
use crate::{History, Track};

/// The value of one tool, by its use in the last `windowDays`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// Sessions in which it succeeded.
    pub uses: u64,
    /// Sessions of any kind.
    pub sessions: u64,
    /// What listing it costs once.
    pub tokens: u64,
    /// Tokens of searches that listing saves.
    pub saved: u64,
    /// Tokens that listing costs, after the discount of the prompt cache.
    pub cost: u64,
}

impl Estimate {
    /// As the log looks at `at`; none for a tool whose definition is not known.
    pub fn of(
        history: &History<'_>,
        track: &Track<'_>,
        thresholds: &Thresholds,
        at: Timestamp,
    ) -> Option<Self> {
        let tokens = track.offer?.tokens;
        let from = at.plus_ms(-days_ms(thresholds.window_days));
        let uses = between(&track.uses, from, at);
        let sessions = between(&history.sessions, from, at);
        let full = u128::from(tokens) * u128::from(sessions);
        let cost = full * u128::from(100 - thresholds.cache_discount.min(100)) / 100;
        let saved = uses.saturating_mul(history.search_tokens);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        Some(Self { uses, sessions, tokens, saved, cost })
    }

    /// Whether listing saves more than it costs.
    pub fn is_worth(&self) -> bool {
        self.saved > self.cost
    }

    /// Tokens saved for each token listed; none where listing costs nothing.
    pub fn per_token(&self) -> Option<f64> {
        (self.cost > 0).then(|| self.saved as f64 / self.cost as f64)
    }
}

/// A tool that is to be listed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    /// Its place among the tools.
    pub(crate) tool: usize,
    pub(crate) is_pinned: bool,
    pub(crate) estimate: Estimate,
}

/// The tools that are kept, in order: all when they fit; else the pinned ones, and of the others
/// those that save most for each token, as long as they fit.
pub(crate) fn within(max_tokens: u32, mut wishes: Vec<Wish>) -> Vec<usize> {
    let max = u64::from(max_tokens);
    let total: u64 = wishes.iter().map(|wish| wish.estimate.tokens).sum();
    if total > max {
        wishes.sort_unstable_by(|a, b| {
            let pins = b.is_pinned.cmp(&a.is_pinned);
            pins.then_with(|| by_value(&b.estimate, &a.estimate)).then(a.tool.cmp(&b.tool))
        });
        let mut used = 0;
        wishes.retain(|wish| {
            let fits = wish.is_pinned || used + wish.estimate.tokens <= max;
            used += if fits { wish.estimate.tokens } else { 0 };
            fits
        });
    }
    let mut kept: Vec<usize> = wishes.into_iter().map(|wish| wish.tool).collect();
    kept.sort_unstable();
    kept
}

/// Sessions, price of a search and discount are the same for all tools.
fn by_value(a: &Estimate, b: &Estimate) -> Ordering {
    let crossed = |x: &Estimate, y: &Estimate| u128::from(x.uses) * u128::from(y.tokens);
    crossed(a, b).cmp(&crossed(b, a))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(tool: usize, is_pinned: bool, uses: u64, tokens: u64) -> Wish {
        let estimate = Estimate { uses, sessions: 9, tokens, saved: 0, cost: 0 };
        Wish { tool, is_pinned, estimate }
    }

    #[test]
    fn over_budget_what_saves_most_for_a_token_is_kept_and_pins_always() {
        let wishes = || {
            vec![
                wish(0, false, 4, 100),
                wish(1, false, 9, 300),
                wish(2, true, 0, 50),
                wish(3, false, 4, 100),
                wish(4, false, 0, 10),
            ]
        };
        for (max, kept) in [
            (560, vec![0, 1, 2, 3, 4]),
            (559, vec![0, 1, 2, 3]),
            (549, vec![0, 2, 3, 4]),
            (250, vec![0, 2, 3]),
            (249, vec![0, 2, 4]),
            (0, vec![2]),
        ] {
            assert_eq!(within(max, wishes()), kept, "{max}");
        }
    }
}
