//! When an upstream is left in peace: it refused us, or asked for a pause.
//!
//! Invariant: an upstream that refuses the proxy's credentials sees at most one request in 15
//! minutes; a pause that it asks for holds the proxy's own requests, never a client's.
//! Deliberately absent: connection failures; see [`crate::catalog`] for how often those are tried.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::header::RETRY_AFTER;
use hyper::{HeaderMap, StatusCode};
use tokio::time::Instant;

use crate::fault::{Fault, FaultKind};
use crate::headers;
use crate::lock::lock;

/// How long an upstream that refused us is not asked.
const PARK: Duration = Duration::from_secs(15 * 60);
/// How long others wait for the one request that tries again.
const TRIAL: Duration = Duration::from_secs(10);
/// A pause that an upstream may ask for.
const LONGEST: Duration = Duration::from_secs(60);
/// Clients' requests that are forbidden in a row: by then it is not about one tool.
const FORBIDDEN: u32 = 3;

/// Stands before the upstream.
#[derive(Default)]
pub(crate) struct Gate {
    /// False as long as nothing is wrong, which is nearly always.
    troubled: AtomicBool,
    /// The credentials are the clients' own: what one may not do says nothing of the others.
    lent: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Nobody passes.
    until: Option<Instant>,
    /// Requests of the proxy's own do not pass.
    own_until: Option<Instant>,
    why: String,
    forbidden: u32,
}

impl Gate {
    /// `lent` says that requests bear the credentials of clients.
    pub(crate) fn new(lent: bool) -> Self {
        Self { lent, ..Self::default() }
    }

    /// Lets a request pass or says why not; `own` is one of the proxy's own.
    pub(crate) fn enter(&self, own: bool) -> Result<(), Fault> {
        if !self.troubled.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = lock(&self.state);
        let now = Instant::now();
        let until = state.until.max(state.own_until.filter(|_| own));
        match until {
            Some(until) if until > now => {
                let left = (until - now).as_secs().max(1);
                let what = format!("{}; it is asked again in {left} s", state.why);
                Err(Fault::new(FaultKind::Http, what))
            }
            Some(_) if state.until.is_some() => {
                state.until = Some(now + TRIAL);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Learns from the head of an answer.
    ///
    /// # Errors
    /// For an answer that is not to be passed on: a client would think that it is asked itself.
    pub(crate) fn saw(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        own: bool,
    ) -> Result<(), Fault> {
        let code = status.as_u16();
        let asks_for_pause = code == 429 || (code == 503 && headers.contains_key(RETRY_AFTER));
        let refuses = code == 508 || (matches!(code, 401 | 403 | 407) && !self.lent);
        if !refuses && !asks_for_pause && !self.troubled.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut state = lock(&self.state);
        let now = Instant::now();
        if refuses {
            state.forbidden = state.forbidden.saturating_add(1);
            // What a client may not do says nothing of what another may.
            if code != 403 || state.forbidden >= FORBIDDEN {
                state.until = Some(now + PARK);
            } else if own {
                state.own_until = Some(now + PARK);
            }
            state.why = match code {
                508 => "upstream.url leads back to this proxy itself".to_owned(),
                _ => format!(
                    "the upstream refuses the proxy with HTTP {code}; check upstream.headers and \
                     send SIGHUP"
                ),
            };
        } else {
            (state.until, state.forbidden) = (None, 0);
            state.own_until = asks_for_pause.then(|| {
                let asked = headers::text(headers, RETRY_AFTER).and_then(|text| text.parse().ok());
                now + Duration::from_secs(asked.unwrap_or(1)).min(LONGEST)
            });
            state.why = format!("the upstream asks for a pause with HTTP {code}");
        }
        let troubled = state.until.is_some() || state.own_until.is_some() || state.forbidden > 0;
        self.troubled.store(troubled, Ordering::Release);
        if refuses && code != 403 {
            return Err(Fault::new(FaultKind::Http, state.why.clone()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 60 * 60;

    /// Requests that pass in a day, one being tried every five seconds.
    async fn passed(status: u16, own: impl Fn(u64) -> bool) -> u32 {
        let gate = Gate::default();
        let mut passed = 0;
        for second in (0..DAY).step_by(5) {
            if gate.enter(own(second)).is_ok() {
                passed += 1;
                let status = StatusCode::from_u16(status).expect("a status");
                let _ = gate.saw(status, &HeaderMap::new(), own(second));
            }
            tokio::time::advance(Duration::from_secs(5)).await;
        }
        passed
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusing_upstream_sees_a_hundred_requests_a_day_at_most() {
        for status in [401, 403] {
            for own in [|_| true, |_| false, |second| second % 60 == 0] as [fn(u64) -> bool; 3] {
                let passed = passed(status, own).await;
                assert!((90..=100).contains(&passed), "{status}: {passed}");
            }
        }
        assert_eq!(passed(200, |_| true).await, 17_280);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_kept_up_to_a_minute_and_by_the_proxy_alone() {
        for (asked, kept) in [("7", 7), ("3600", 60), ("soon", 1)] {
            let gate = Gate::default();
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, asked.parse().expect("a value"));
            let _ = gate.saw(StatusCode::TOO_MANY_REQUESTS, &headers, false);
            assert!(gate.enter(false).is_ok(), "a client waits");
            tokio::time::advance(Duration::from_millis(kept * 1000 - 100)).await;
            assert!(gate.enter(true).is_err(), "{asked}");
            tokio::time::advance(Duration::from_millis(200)).await;
            assert!(gate.enter(true).is_ok(), "{asked}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_forbidden_call_closes_nothing_and_one_success_opens_all() {
        let (gate, none) = (Gate::default(), HeaderMap::new());
        for _ in 0..2 {
            let _ = gate.saw(StatusCode::FORBIDDEN, &none, false);
            assert!(gate.enter(false).is_ok() && gate.enter(true).is_ok());
        }
        let _ = gate.saw(StatusCode::OK, &none, false);
        let _ = gate.saw(StatusCode::UNAUTHORIZED, &none, true);
        assert!(gate.enter(false).is_err());
        tokio::time::advance(PARK).await;
        assert!(gate.enter(false).is_ok() && gate.enter(false).is_err(), "one tries for all");
        let _ = gate.saw(StatusCode::OK, &none, false);
        assert!(gate.enter(false).is_ok() && gate.enter(true).is_ok());
    }
}
