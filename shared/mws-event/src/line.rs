//! From a line to an event and back.
//!
//! Invariant: `parse(write(e)) == e`, and a written line never exceeds [`LINE_MAX`] bytes.
//! Deliberately absent: keeping unknown fields; who passes lines on, passes the bytes on.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Call, Record, Timestamp, VERSION};

/// Longest line written, in bytes, newline included.
pub const LINE_MAX: usize = 4096;

const TOOL_MAX: usize = 256;
const CLIENT_MAX: usize = 128;

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A tool call.
    Call(Box<Call>),
    /// Anything else.
    Record(Record),
}

/// Why a line is not an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParseError {
    /// Not a JSON object, or a required field is missing or of the wrong type.
    Damaged(String),
    /// Written by a later version.
    Newer(u32),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(why) => write!(f, "damaged line: {why}"),
            Self::Newer(v) => write!(f, "line of a later format version {v}"),
        }
    }
}

impl std::error::Error for ParseError {}

#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(borrow, default)]
    event: Option<Cow<'a, str>>,
    #[serde(default)]
    v: Option<u32>,
}

impl Event {
    /// Parses one line, with or without its newline.
    ///
    /// # Errors
    /// [`ParseError::Damaged`] for anything that is not an event, [`ParseError::Newer`] for a
    /// line of a later format version.
    pub fn parse(line: &[u8]) -> Result<Self, ParseError> {
        let line = line.trim_ascii();
        if line.first() != Some(&b'{') {
            return Err(ParseError::Damaged("not a JSON object".into()));
        }
        // Most lines are calls of today; those are read once only.
        if !names_an_event(line)
            && let Ok(call) = serde_json::from_slice::<Call>(line)
            && call.v <= VERSION
        {
            return Ok(Self::Call(Box::new(call)));
        }
        let peek: Peek<'_> = serde_json::from_slice(line).map_err(damaged)?;
        match peek.v {
            Some(v) if v > VERSION => Err(ParseError::Newer(v)),
            _ if peek.event.is_some() => {
                serde_json::from_slice(line).map(Self::Record).map_err(damaged)
            }
            _ => serde_json::from_slice(line).map(Self::Call).map_err(damaged),
        }
    }

    /// The event as one line with its newline. Over-long names are cut.
    pub fn to_line(&self) -> Vec<u8> {
        let mut line = match self {
            Self::Call(call) => json(&cut(call)),
            Self::Record(record) => json(record),
        };
        if line.len() >= LINE_MAX {
            line = self.short_line();
        }
        line.push(b'\n');
        line
    }

    /// When it happened.
    pub fn ts(&self) -> Timestamp {
        match self {
            Self::Call(call) => call.ts,
            Self::Record(record) => record.ts,
        }
    }

    /// Its id, when it has one.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Call(call) => call.id.as_deref(),
            Self::Record(record) => record.id.as_deref(),
        }
    }

    /// Gives the event an id unless it has one.
    pub fn set_id(&mut self, id: impl FnOnce() -> String) {
        let slot = match self {
            Self::Call(call) => &mut call.id,
            Self::Record(record) => &mut record.id,
        };
        slot.get_or_insert_with(id);
    }

    /// What remains of a line that would be too long: the required fields and the ids.
    fn short_line(&self) -> Vec<u8> {
        match self {
            Self::Call(call) => {
                let mut short = Call::new(call.ts, call.tool.clone(), call.via, call.ok, call.ms);
                short.client.clone_from(&call.client);
                short.id.clone_from(&call.id);
                short.src = call.src;
                short.call_id = call.call_id.as_deref().map(|s| clip(s, TOOL_MAX).into_owned());
                short.session = call.session.as_deref().map(|s| clip(s, TOOL_MAX).into_owned());
                json(&cut(&short))
            }
            Self::Record(record) => json(&Record { kind: shorten(&record.kind), ..record.clone() }),
        }
    }
}

/// Whether the line may have the field `event`: a key that is not escaped ends in these bytes.
fn names_an_event(line: &[u8]) -> bool {
    line.contains(&b'\\') || line.windows(6).any(|bytes| bytes == b"event\"")
}

/// Name lists are what can grow without bound in a record.
fn shorten(kind: &crate::Kind) -> crate::Kind {
    match kind {
        crate::Kind::WorkingSetPublished { hash, tools, promoted, demoted } => {
            let head = |names: &[String]| names.iter().take(5).cloned().collect();
            crate::Kind::WorkingSetPublished {
                hash: hash.clone(),
                tools: *tools,
                promoted: head(promoted),
                demoted: head(demoted),
            }
        }
        other => other.clone(),
    }
}

fn cut(call: &Call) -> Cow<'_, Call> {
    if call.tool.len() <= TOOL_MAX && call.client.len() <= CLIENT_MAX {
        return Cow::Borrowed(call);
    }
    let mut short = call.clone();
    short.tool = clip(&call.tool, TOOL_MAX).into_owned();
    short.client = clip(&call.client, CLIENT_MAX).into_owned();
    Cow::Owned(short)
}

fn clip(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text[..text.floor_char_boundary(max)].to_owned())
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    // Only maps with odd keys and failing writers make serialisation fail; there are none here.
    serde_json::to_vec(value).unwrap_or_default()
}

fn damaged(error: serde_json::Error) -> ParseError {
    ParseError::Damaged(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Source, Via};

    fn call(line: &str) -> Call {
        match Event::parse(line.as_bytes()).expect("a call") {
            Event::Call(call) => *call,
            Event::Record(record) => panic!("not a call: {record:?}"),
        }
    }

    #[test]
    fn a_line_of_the_earlier_version_is_a_call() {
        let c = call(
            r#"{"ts":"2026-03-01T00:00:11.000Z","tool":"mail_send","via":"direct","ok":true,"ms":12.7,"client":"x"}"#,
        );
        assert_eq!((c.ms, c.src, c.via, c.v), (13, Source::Proxy, Via::Direct, 1));
    }

    #[test]
    fn written_lines_have_the_old_fields_first_and_read_back_the_same() {
        let mut c = Call::new(Timestamp::from_unix_ms(0), "a", Via::CallTool, false, 3);
        c.client = "cc".into();
        c.id = Some("w.1".into());
        c.session = Some("s".into());
        let event = Event::Call(Box::new(c));
        let line = event.to_line();
        assert_eq!(
            std::str::from_utf8(&line).expect("UTF-8"),
            "{\"ts\":\"1970-01-01T00:00:00.000Z\",\"tool\":\"a\",\"via\":\"call_tool\",\"ok\":false,\"ms\":3,\
             \"client\":\"cc\",\"v\":1,\"id\":\"w.1\",\"src\":\"proxy\",\"session\":\"s\"}\n"
        );
        assert_eq!(Event::parse(&line), Ok(event));
    }

    #[test]
    fn unknown_kinds_and_fields_are_no_damage() {
        let parsed =
            Event::parse(br#"{"ts":"2026-03-01T00:00:11Z","event":"moon_phase","phase":[1]}"#);
        assert!(matches!(parsed, Ok(Event::Record(Record { kind: Kind::Unknown, .. }))));
    }

    #[test]
    fn damage_and_later_versions_are_told_apart() {
        assert_eq!(Event::parse(br#"{"v":2,"ts":"x"}"#), Err(ParseError::Newer(2)));
        for bad in ["", "[]", "{", "{}", r#"{"ts":"2026-03-01T00:00:11Z","tool":1,"ok":true}"#] {
            assert!(matches!(Event::parse(bad.as_bytes()), Err(ParseError::Damaged(_))), "{bad}");
        }
    }

    #[test]
    fn no_line_exceeds_the_cap() {
        let mut c =
            Call::new(Timestamp::from_unix_ms(0), "é".repeat(5000), Via::Listed, true, u64::MAX);
        c.client = "c".repeat(9000);
        c.raw = Some("r".repeat(9000));
        let line = Event::Call(Box::new(c)).to_line();
        assert!(line.len() <= LINE_MAX, "{}", line.len());
        let names = vec!["n".repeat(256); 100];
        let record = Record::new(
            Timestamp::from_unix_ms(0),
            Kind::WorkingSetPublished {
                hash: "0".into(),
                tools: 100,
                promoted: names.clone(),
                demoted: names,
            },
        );
        let line = Event::Record(record).to_line();
        assert!(line.len() <= LINE_MAX && Event::parse(&line).is_ok());
    }
}
