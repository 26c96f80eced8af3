//! From lines to calls: each call once per place that saw it.
//!
//! Invariant: the result does not depend on the order of lines; `ok` only ever turns true and the
//! earliest time holds. A line without any id is known by its whole content.
//! Deliberately absent: joining the proxy's calls with those of transcripts ([`crate::join`]).

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::rc::Rc;

use mws_event::{Call, Source, Timestamp, Via};

/// Call ids shorter than this are counters of a local model, unique within a session only.
const SURE_ID: usize = 20;

/// Clients with transcripts, which give themselves longer names over the wire.
const FAMILIES: [&str; 4] = ["claudecode", "codex", "geminicli", "qwen"];

/// One call as one place saw it.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    /// The line that tells most.
    pub(crate) call: &'a Call,
    /// Earliest time of all its lines.
    pub(crate) start: Timestamp,
    /// True when any of its lines says so.
    pub(crate) ok: bool,
    /// The client without version and spelling.
    pub(crate) family: Rc<str>,
    /// The client's id of the call, qualified by the session when it is short.
    pub(crate) call_id: Option<Cow<'a, str>>,
}

impl Seen<'_> {
    /// Whether the call id proves that a call with another id is another call.
    pub(crate) fn has_sure_id(&self) -> bool {
        self.call.call_id.as_ref().is_some_and(|id| id.len() >= SURE_ID)
    }
}

/// What one place saw, by time.
pub(crate) type Place<'a> = Vec<Seen<'a>>;

/// Folds lines into the calls that transcripts hold and those that the proxy saw.
pub(crate) fn fold<'a>(lines: impl Iterator<Item = &'a Call>) -> (Place<'a>, Place<'a>) {
    let mut families = HashMap::new();
    let mut places: [HashMap<Key<'a>, Seen<'a>>; 2] = Default::default();
    for call in lines {
        let family: &Rc<str> =
            families.entry(call.client.as_str()).or_insert_with(|| family(&call.client));
        let new = Seen {
            call,
            start: call.ts,
            ok: call.ok,
            family: Rc::clone(family),
            call_id: qualified(call),
        };
        let place = &mut places[usize::from(call.src == Source::Proxy)];
        place.entry(key(&new)).and_modify(|old| old.take_in(&new)).or_insert(new);
    }
    let [transcripts, proxied] = places.map(by_time);
    (transcripts, proxied)
}

impl<'a> Seen<'a> {
    fn take_in(&mut self, other: &Self) {
        self.start = self.start.min(other.start);
        self.ok |= other.ok;
        if rank(other.call) < rank(self.call) {
            self.call = other.call;
            self.family = Rc::clone(&other.family);
        }
    }
}

/// What makes two lines the same call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key<'a> {
    CallId(Rc<str>, Cow<'a, str>),
    EventId(&'a str),
    Content(Timestamp, &'a str, Via, bool, u64, &'a str, Option<&'a str>, Option<&'a str>),
}

fn key<'a>(seen: &Seen<'a>) -> Key<'a> {
    let c = seen.call;
    match (&seen.call_id, &c.id) {
        (Some(id), _) => Key::CallId(Rc::clone(&seen.family), id.clone()),
        (None, Some(id)) => Key::EventId(id),
        (None, None) => Key::Content(
            c.ts,
            &c.tool,
            c.via,
            c.ok,
            c.ms,
            &c.client,
            c.session.as_deref(),
            c.conn.as_deref(),
        ),
    }
}

fn by_time<'a>(place: HashMap<Key<'a>, Seen<'a>>) -> Place<'a> {
    let mut entries: Vec<_> = place.into_iter().collect();
    entries.sort_unstable_by(|(ka, a), (kb, b)| {
        (a.start, &a.call.tool, ka).cmp(&(b.start, &b.call.tool, kb))
    });
    entries.into_iter().map(|(_, seen)| seen).collect()
}

/// Smallest is the line to believe: a success, with a session, the earliest, the last written.
fn rank(c: &Call) -> impl Ord + '_ {
    let rest = (&c.tool, c.via, c.ms, &c.client, &c.session, &c.conn);
    (!c.ok, c.session.is_none(), c.ts, Reverse(&c.id), rest)
}

fn qualified(call: &Call) -> Option<Cow<'_, str>> {
    let id = call.call_id.as_deref().filter(|id| !id.is_empty())?;
    if id.len() >= SURE_ID || id.contains('/') {
        return Some(Cow::Borrowed(id));
    }
    let session = call.root.as_deref().or(call.session.as_deref()).or(call.conn.as_deref())?;
    Some(Cow::Owned(format!("{session}/{id}")))
}

/// `claude-code`, `claude-code/2.1 (cli)` and `Claude Code` are one family.
fn family(client: &str) -> Rc<str> {
    let name = client.split(['/', '(']).next().unwrap_or_default();
    let mut words: Vec<&str> = name.split_whitespace().collect();
    let is_version = |w: &&str| w.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
    if words.len() > 1 {
        words.pop_if(|w| is_version(&&**w));
    }
    let letters = words.concat().to_lowercase();
    let plain: String = letters.chars().filter(|c| c.is_alphanumeric()).collect();
    let known = FAMILIES.iter().find(|known| plain.starts_with(**known));
    Rc::from(known.map_or(plain.as_str(), |known| *known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_no_version_and_no_spelling() {
        for (family_name, clients) in [
            (
                "claudecode",
                &["claude-code", "claude-code/2.1.3 (cli)", "Claude Code", "Claude Code 2.1"][..],
            ),
            ("codex", &["codex", "codex-mcp-client", "codex_cli_rs/0.144"]),
            ("geminicli", &["gemini-cli", "gemini-cli-mcp-client"]),
            ("qwen", &["qwen-code", "qwen-cli-mcp-client-toolbox"]),
            ("cursor", &["Cursor", "cursor/1.0", "cursor v1.2"]),
            ("", &["", "/1"]),
            ("7", &["7"]),
        ] {
            for client in clients {
                assert_eq!(&*family(client), family_name, "{client}");
            }
        }
        assert_ne!(family("claude-ai"), family("claude-code"));
    }

    #[test]
    fn a_short_call_id_counts_within_its_session_only() {
        let mut call = Call::new(Timestamp::from_unix_ms(0), "a", Via::Direct, true, 1);
        let id_of = |call: &Call| qualified(call).map(Cow::into_owned);
        assert_eq!(id_of(&call), None);
        call.call_id = Some("call_0".into());
        assert_eq!(id_of(&call), None);
        call.session = Some("s".into());
        assert_eq!(id_of(&call).as_deref(), Some("s/call_0"));
        call.root = Some("r".into());
        assert_eq!(id_of(&call).as_deref(), Some("r/call_0"));
        call.call_id = Some("r/call_0".into());
        assert_eq!(id_of(&call).as_deref(), Some("r/call_0"));
        call.call_id = Some("toolu_01000000000000000000".into());
        assert_eq!(id_of(&call).as_deref(), Some("toolu_01000000000000000000"));
    }
}
