//! The records of the state file, one function to write and one to read each.
//!
//! Invariant: what was written reads back equal.
//! Deliberately absent: the order and number of records; see [`crate::state`].

use std::sync::Arc;

use mws_event::{Timestamp, Via};

use crate::codec::{Decoder, Encoder};
use crate::known::{Known, Pending};
use crate::sighting::{Link, Outcome, Why};
use crate::sources::SOURCES;
use crate::state::{FileRecord, Stamp};

pub(crate) fn encode_file(out: &mut Encoder, record: &FileRecord) {
    let Stamp { inode: (dev, ino), size, mtime_ns, ctime_ns } = record.stamp;
    for n in [dev, ino, size, record.offset, record.head, record.tail, record.root] {
        out.u64(n);
    }
    out.i64(mtime_ns);
    out.i64(ctime_ns);
    out.byte(record.source);
    out.u32(record.bad_lines);
    out.u32(record.salvaged);
    out.byte(record.link.as_ref().map_or(0, |link| 1 + u8::from(link.is_subagent)));
    if let Some(link) = &record.link {
        out.bytes(link.thread.as_bytes());
        out.bytes(link.parent.as_bytes());
    }
}

pub(crate) fn decode_file(input: &mut Decoder<'_>) -> Option<FileRecord> {
    let (inode, size) = ((input.u64()?, input.u64()?), input.u64()?);
    let (offset, head) = (input.u64()?, input.u64()?);
    let (tail, root) = (input.u64()?, input.u64()?);
    let stamp = Stamp { inode, size, mtime_ns: input.i64()?, ctime_ns: input.i64()? };
    let source = input.byte().filter(|source| usize::from(*source) < SOURCES.len())?;
    let (bad_lines, salvaged) = (input.u32()?, input.u32()?);
    let link = match input.byte()? {
        0 => None,
        kind => Some(Link { thread: input.text()?, parent: input.text()?, is_subagent: kind == 2 }),
    };
    Some(FileRecord { stamp, offset, head, tail, root, source, bad_lines, salvaged, link })
}

pub(crate) fn encode_known(out: &mut Encoder, known: &Known) {
    match known {
        Known::Done => out.byte(0),
        Known::Result { outcome, reported, seen } => {
            out.byte(1);
            encode_outcome(out, Some(*outcome));
            out.byte(flag(*reported));
            out.i64(seen.unix_ms());
        }
        Known::Call(call) => {
            out.byte(2);
            encode_call(out, call);
        }
    }
}

pub(crate) fn decode_known(input: &mut Decoder<'_>) -> Option<Known> {
    match input.byte()? {
        0 => Some(Known::Done),
        1 => Some(Known::Result {
            outcome: decode_outcome(input)??,
            reported: unflag(input.byte()?)?,
            seen: Timestamp::from_unix_ms(input.i64()?),
        }),
        2 => decode_call(input).map(|call| Known::Call(Box::new(call))),
        _ => None,
    }
}

fn encode_call(out: &mut Encoder, call: &Pending) {
    for text in [&*call.client, &*call.call_id, &*call.tool, &*call.server] {
        out.bytes(text.as_bytes());
    }
    out.len(call.claims.len());
    for (at, from) in &call.claims {
        out.bytes(at.as_bytes());
        out.optional(from.as_deref());
    }
    for text in [&call.raw, &call.version, &call.agent] {
        out.optional(text.as_deref());
    }
    for bit in [call.via == Via::CallTool, call.ts_of_end, call.name_of_end] {
        out.byte(u8::from(bit));
    }
    out.i64(call.ts.unix_ms());
    encode_outcome(out, call.outcome);
    out.byte(flag(call.reported));
    out.i64(call.seen.unix_ms());
}

fn decode_call(input: &mut Decoder<'_>) -> Option<Pending> {
    let client = input.text()?;
    let call_id: Arc<str> = input.text()?;
    let (tool, server) = (input.text()?, input.text()?);
    let mut claims = Vec::new();
    for _ in 0..input.len()? {
        claims.push((input.text()?, input.optional()?));
    }
    Some(Pending {
        client,
        call_id: (&*call_id).into(),
        tool,
        server,
        claims,
        raw: input.optional()?,
        version: input.optional()?,
        agent: input.optional()?,
        via: if input.byte()? == 1 { Via::CallTool } else { Via::Direct },
        ts_of_end: input.byte()? == 1,
        name_of_end: input.byte()? == 1,
        ts: Timestamp::from_unix_ms(input.i64()?),
        outcome: decode_outcome(input)?,
        reported: unflag(input.byte()?)?,
        seen: Timestamp::from_unix_ms(input.i64()?),
    })
}

fn encode_outcome(out: &mut Encoder, outcome: Option<Outcome>) {
    out.byte(flag(outcome.map(|outcome| outcome.ok)));
    if let Some(outcome) = outcome {
        out.byte(outcome.why as u8);
        out.i64(outcome.ts.map_or(i64::MIN, Timestamp::unix_ms));
        out.u64(outcome.ms.unwrap_or(u64::MAX));
    }
}

fn decode_outcome(input: &mut Decoder<'_>) -> Option<Option<Outcome>> {
    let Some(ok) = unflag(input.byte()?)? else { return Some(None) };
    let why = *Why::ALL.get(usize::from(input.byte()?))?;
    let ts = Some(input.i64()?).filter(|ms| *ms != i64::MIN).map(Timestamp::from_unix_ms);
    let ms = Some(input.u64()?).filter(|ms| *ms != u64::MAX);
    Some(Some(Outcome { ok, why, ts, ms }))
}

fn flag(value: Option<bool>) -> u8 {
    value.map_or(2, u8::from)
}

fn unflag(byte: u8) -> Option<Option<bool>> {
    match byte {
        0 => Some(Some(false)),
        1 => Some(Some(true)),
        2 => Some(None),
        _ => None,
    }
}
