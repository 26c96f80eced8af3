//! `mws log`: the lines of the event log as they are, optionally from a time or of a kind only.
//!
//! Invariant: a line that is printed is printed byte for byte, kinds and fields of later versions
//! included.
//! Deliberately absent: formatting. `jq` does that better.

use std::borrow::Cow;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use mws_cli::{Common, Exit, Failure, Output};
use mws_event::{Event, ParseError, Timestamp, parse_when};
use mws_state::Follower;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
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

/// Prints what the flags ask for; with `-f`, until interrupted.
pub(crate) fn run(args: &LogArgs, common: &Common) -> Result<Exit, Failure> {
    let (_, state) = common.load()?;
    let since = args.since.as_deref().map(|when| parse_when(when, mws_state::now()));
    let filter = Filter {
        since: since.transpose().map_err(|e| Failure::usage(format!("--since: {e}")))?,
        types: args.types.clone(),
    };
    let out = Output::stdout();
    let mut out = if args.follow { out.line_buffered() } else { out };
    let mut printer = Printer::new(filter, |line: &[u8]| out.bytes(line));
    let mut follower = Follower::from_start(&state, |line| printer.line(line))?;
    printer.settle(follower.take_unreadable())?;
    if args.follow {
        loop {
            wait(&io::stdout(), POLL)?;
            follower.poll(|line| printer.line(line))?;
            printer.settle(follower.take_unreadable())?;
        }
    }
    out.finish()?;
    Ok(Exit::Done)
}

/// Waits for `time`, or until nobody reads `out` any more, which is an error.
fn wait(out: &impl AsFd, time: Duration) -> io::Result<()> {
    let time = Timespec::try_from(time).map_err(io::Error::other)?;
    // Nothing is asked for; that the other end is closed is told anyway.
    let mut polled = [PollFd::new(out, PollFlags::empty())];
    match poll(&mut polled, Some(&time)) {
        Ok(0) | Err(Errno::INTR) => Ok(()),
        Ok(_) => Err(io::ErrorKind::BrokenPipe.into()),
        Err(e) => Err(e.into()),
    }
}

/// Judges and writes one line after another.
struct Printer<W> {
    filter: Filter,
    write: W,
    buffer: Vec<u8>,
    damaged: u64,
    failed: io::Result<()>,
}

impl<W: FnMut(&[u8]) -> io::Result<()>> Printer<W> {
    fn new(filter: Filter, write: W) -> Self {
        Self { filter, write, buffer: Vec::new(), damaged: 0, failed: Ok(()) }
    }

    fn line(&mut self, line: &[u8]) {
        match self.filter.judge(line) {
            Verdict::Print if self.failed.is_ok() => {
                self.buffer.clear();
                self.buffer.extend_from_slice(line);
                self.buffer.push(b'\n');
                self.failed = (self.write)(&self.buffer);
            }
            Verdict::Print | Verdict::Skip => {}
            Verdict::Damaged => self.damaged += 1,
        }
    }

    /// Says what was skipped since the last time, and how the writing went.
    fn settle(&mut self, unreadable: u64) -> io::Result<()> {
        let damaged = std::mem::take(&mut self.damaged);
        if damaged + unreadable > 0 {
            tracing::warn!(
                "Skipped {damaged} damaged lines and {unreadable} unreadable files of the event log."
            );
        }
        std::mem::replace(&mut self.failed, Ok(()))
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
    fn waiting_ends_with_the_reader() {
        let (reader, writer) = io::pipe().expect("a pipe");
        wait(&writer, Duration::from_millis(1)).expect("there is a reader");
        drop(reader);
        let error = wait(&writer, Duration::from_secs(60)).expect_err("no reader");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
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
        let odd = CALL.replace("\"ok\":true", "\"ok\" : true, \"z\":1.0");
        let mut out = Vec::new();
        let filter = Filter { since: None, types: Vec::new() };
        let mut printer = Printer::new(filter, |line: &[u8]| {
            out.extend_from_slice(line);
            Ok(())
        });
        for line in [CALL, "{torn", &odd, "", LATER] {
            printer.line(line.as_bytes());
        }
        assert_eq!(printer.damaged, 1);
        assert_eq!(String::from_utf8(out).expect("UTF-8"), format!("{CALL}\n{odd}\n{LATER}\n"));
    }
}
