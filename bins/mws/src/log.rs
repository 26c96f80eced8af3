//! `mws log`: the lines of the event log as they are, optionally from a time or of a kind only.
//!
//! Invariant: a line that is printed is printed byte for byte, kinds and fields of later versions
//! included.
//! Deliberately absent: formatting. `jq` does that better.

use std::borrow::Cow;
use std::io::{self, Write};
use std::time::Duration;

use mws_event::{Event, ParseError, Timestamp, parse_when};
use mws_state::{Follower, StateDir};
use serde::Deserialize;

/// Short enough to feel immediate, long enough to cost nothing.
const POLL: Duration = Duration::from_millis(200);

/// Print the event log: one JSON object a line.
#[derive(Debug, clap::Args)]
pub struct LogArgs {
    /// Print what is there, then wait for more until interrupted.
    #[arg(short = 'f', long)]
    pub follow: bool,
    /// Only events since then: a span (30d, 12h), a date, RFC 3339 or @SECONDS.
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Only events of this type: call, search, list, working_set_published, … (repeatable).
    #[arg(long = "type", value_name = "TYPE")]
    pub types: Vec<String>,
}

/// Which lines are wanted.
struct Filter {
    since: Option<Timestamp>,
    types: Vec<String>,
}

#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(borrow, default)]
    event: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    ts: Option<Cow<'a, str>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Print,
    Skip,
    Damaged,
}

/// Prints the log to `out`; returns the number of damaged lines.
///
/// # Errors
/// When the log cannot be read or `out` not be written.
pub(crate) fn print(
    args: &LogArgs,
    since: Option<Timestamp>,
    state: &StateDir,
    out: &mut impl Write,
) -> io::Result<u64> {
    let filter = Filter { since, types: args.types.clone() };
    let mut printer = Printer { filter, out, damaged: 0, failed: Ok(()) };
    let mut follower = Follower::from_start(state, |line| printer.line(line))?;
    loop {
        std::mem::replace(&mut printer.failed, Ok(()))?;
        if !args.follow {
            return Ok(printer.damaged);
        }
        printer.out.flush()?;
        std::thread::sleep(POLL);
        follower.poll(|line| printer.line(line))?;
    }
}

/// The start of the wanted time, if one was given.
///
/// # Errors
/// When it is not a time.
pub(crate) fn since(args: &LogArgs, now: Timestamp) -> Result<Option<Timestamp>, String> {
    args.since.as_deref().map(|when| parse_when(when, now)).transpose().map_err(|e| e.to_string())
}

struct Printer<'a, W> {
    filter: Filter,
    out: &'a mut W,
    damaged: u64,
    failed: io::Result<()>,
}

impl<W: Write> Printer<'_, W> {
    fn line(&mut self, line: &[u8]) {
        match self.filter.judge(line) {
            Verdict::Print if self.failed.is_ok() => {
                self.failed =
                    self.out.write_all(line).and_then(|()| self.out.write_all(b"\n"));
            }
            Verdict::Print | Verdict::Skip => {}
            Verdict::Damaged => self.damaged += 1,
        }
    }
}

impl Filter {
    fn judge(&self, line: &[u8]) -> Verdict {
        if line.trim_ascii().is_empty() {
            return Verdict::Skip;
        }
        if let Err(ParseError::Damaged(_)) = Event::parse(line) {
            return Verdict::Damaged;
        }
        let Ok(peek) = serde_json::from_slice::<Peek<'_>>(line.trim_ascii()) else {
            return Verdict::Damaged;
        };
        let kind = peek.event.as_deref().unwrap_or("call");
        let ts = || peek.ts.as_deref().and_then(|ts| ts.parse::<Timestamp>().ok());
        let type_fits = self.types.is_empty() || self.types.iter().any(|t| t == kind);
        let time_fits = self.since.is_none_or(|since| ts().is_some_and(|ts| ts >= since));
        if type_fits && time_fits { Verdict::Print } else { Verdict::Skip }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &str = r#"{"ts":"2026-03-01T00:00:11.000Z","tool":"a","ok":true}"#;
    const LATER: &str = r#"{"v":9,"ts":"2026-03-03T00:00:00Z","event":"moon_phase","phase":[1]}"#;

    fn judge(types: &[&str], since: Option<&str>, line: &str) -> Verdict {
        let types = types.iter().map(|t| (*t).to_owned()).collect();
        let since = since.map(|s| s.parse().expect("a time"));
        Filter { since, types }.judge(line.as_bytes())
    }

    #[test]
    fn calls_are_the_lines_without_event() {
        assert_eq!(judge(&["call"], None, CALL), Verdict::Print);
        assert_eq!(judge(&["search"], None, CALL), Verdict::Skip);
        assert_eq!(judge(&["search", "moon_phase"], None, LATER), Verdict::Print);
    }

    #[test]
    fn since_includes_its_own_moment() {
        assert_eq!(judge(&[], Some("2026-03-01T00:00:11Z"), CALL), Verdict::Print);
        assert_eq!(judge(&[], Some("2026-03-01T00:00:12Z"), CALL), Verdict::Skip);
    }

    #[test]
    fn damage_is_counted_and_the_rest_printed_byte_for_byte() {
        let tmp = tempfile::tempdir().expect("a directory");
        let state = StateDir::at(tmp.path());
        let odd = CALL.replace("\"ok\":true", "\"ok\" : true, \"z\":1.0");
        let text = format!("{CALL}\n{{torn\n{odd}\n{LATER}\nno newline");
        mws_state::publish(&state.calls(), text.as_bytes()).expect("written");
        let args = LogArgs { follow: false, since: None, types: Vec::new() };
        let mut out = Vec::new();
        let damaged = print(&args, None, &state, &mut out).expect("printed");
        assert_eq!(damaged, 1);
        assert_eq!(String::from_utf8(out).expect("UTF-8"), format!("{CALL}\n{odd}\n{LATER}\n"));
    }
}
