//! The records of the state file, one function to write and one to read each.
//!
//! Invariant: what was written reads back equal, but for claims that were decided.
//! Deliberately absent: the order and number of records; see [`crate::state`].

use std::sync::Arc;

use mws_event::{Timestamp, Via};

use crate::codec::{Decoder, Encoder};
use crate::known::{Known, Pending};
use crate::sighting::{Outcome, Why};
use crate::state::{FileRecord, Stamp};

pub(crate) fn encode_file(out: &mut Encoder, record: &FileRecord) {
    let Stamp { inode: (dev, ino), size, mtime_ns, ctime_ns } = record.stamp;
    for n in [dev, ino, size, record.offset, record.head, record.tail] {
        out.u64(n);
    }
    out.i64(mtime_ns);
    out.i64(ctime_ns);
}

pub(crate) fn decode_file(input: &mut Decoder<'_>) -> Option<FileRecord> {
    let (inode, size) = ((input.u64()?, input.u64()?), input.u64()?);
    let (offset, head, tail) = (input.u64()?, input.u64()?, input.u64()?);
    let stamp = Stamp { inode, size, mtime_ns: input.i64()?, ctime_ns: input.i64()? };
    Some(FileRecord { stamp, offset, head, tail })
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
    let session = call.claims.first().map(|(session, _)| &**session).unwrap_or_default();
    for text in [&*call.client, &*call.call_id, &*call.tool, &*call.server, session] {
        out.bytes(text.as_bytes());
    }
    for text in [&call.raw, &call.version, &call.agent] {
        out.optional(text.as_deref());
    }
    out.byte(u8::from(call.via == Via::CallTool));
    out.i64(call.ts.unix_ms());
    encode_outcome(out, call.outcome);
    out.byte(flag(call.reported));
    out.i64(call.seen.unix_ms());
}

fn decode_call(input: &mut Decoder<'_>) -> Option<Pending> {
    let client = input.text()?;
    let call_id: Arc<str> = input.text()?;
    let (tool, server, session) = (input.text()?, input.text()?, input.text()?);
    Some(Pending {
        client,
        call_id: (&*call_id).into(),
        tool,
        server,
        claims: vec![(session, None)],
        raw: input.optional()?,
        version: input.optional()?,
        agent: input.optional()?,
        via: if input.byte()? == 1 { Via::CallTool } else { Via::Direct },
        ts: Timestamp::from_unix_ms(input.i64()?),
        settled: true,
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
    }
}

fn decode_outcome(input: &mut Decoder<'_>) -> Option<Option<Outcome>> {
    let Some(ok) = unflag(input.byte()?)? else { return Some(None) };
    let why = *Why::ALL.get(usize::from(input.byte()?))?;
    let ts = Some(input.i64()?).filter(|ms| *ms != i64::MIN).map(Timestamp::from_unix_ms);
    Some(Some(Outcome { ok, why, ts }))
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
