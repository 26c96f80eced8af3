//! What earlier runs have read: one checksummed file in the state directory.
//!
//! Invariant: a file that is damaged or of another version reads as no state at all; then all is
//! read again, and events that repeat have the ids they had. No byte of a transcript but ids,
//! names and times is in it, and not where it is. Deliberately absent: partial updates; it is replaced whole.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use mws_event::Timestamp;
use mws_state::{ReadError, StateDir, publish, read_file};
use xxhash_rust::xxh3::xxh3_64;

use crate::calls::{Kept, Reported};
use crate::codec::{Decoder, Encoder};
use crate::hashed::ByHash;
use crate::records::{decode_file, decode_known, encode_file, encode_known};
use crate::sighting::Link;

/// Changes with the format, and when a reader learns to see more in files already read.
const MAGIC: &[u8; 8] = b"mwsing03";
/// About how long the records are, in bytes.
const FILE: usize = 112;
const CALL: usize = 48;
const MAX: u64 = 1 << 30;

/// What tells one version of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Device and inode.
    pub(crate) inode: (u64, u64),
    /// Bytes.
    pub(crate) size: u64,
    /// Last write, in nanoseconds.
    pub(crate) mtime_ns: i64,
    /// Last change of the inode, in nanoseconds.
    pub(crate) ctime_ns: i64,
}

impl Stamp {
    /// The stamp of a file.
    pub(crate) fn of(meta: &Metadata) -> Self {
        let ns = |seconds: i64, ns: i64| seconds.wrapping_mul(1_000_000_000).wrapping_add(ns);
        Self {
            inode: (meta.dev(), meta.ino()),
            size: meta.size(),
            mtime_ns: ns(meta.mtime(), meta.mtime_nsec()),
            ctime_ns: ns(meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// When it was last written.
    pub(crate) fn mtime(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.mtime_ns.div_euclid(1_000_000))
    }
}

/// How far a file was read, and what was in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileRecord {
    /// The file as it was.
    pub(crate) stamp: Stamp,
    /// End of the last record consumed; of a compressed file, its size.
    pub(crate) offset: u64,
    /// Hash of the first bytes before the offset.
    pub(crate) head: u64,
    /// Hash of the last bytes before the offset.
    pub(crate) tail: u64,
    /// Hash of the root below which it was found.
    pub(crate) root: u64,
    /// Whose transcript it is: its place in [`crate::sources::SOURCES`].
    pub(crate) source: u8,
    /// Damaged lines among those that mattered.
    pub(crate) bad_lines: u32,
    /// Records recovered from them.
    pub(crate) salvaged: u32,
    /// Where its thread was split from another.
    pub(crate) link: Option<Link>,
}

/// Files by hash of their canonical path.
pub(crate) type Files = ByHash<FileRecord>;

/// All that is known from earlier runs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Under which names calls were looked for.
    pub(crate) fingerprint: u64,
    /// What was read.
    pub(crate) files: Files,
    /// What was found.
    pub(crate) kept: Kept,
}

fn path(dir: &StateDir) -> PathBuf {
    dir.ingest_dir().join("state.bin")
}

impl State {
    /// Reads the state; an empty one and a warning when it is damaged.
    pub(crate) fn load(dir: &StateDir) -> (Self, Option<String>) {
        let path = path(dir);
        let damage = match read_file(&path, MAX) {
            Ok((bytes, _)) => match decode(&bytes) {
                Some(state) => return (state, None),
                None => "damaged or of another version".to_owned(),
            },
            Err(ReadError::Missing) => return (Self::default(), None),
            Err(e) => e.to_string(),
        };
        let warning = format!("{}: {damage}; all transcripts are read again", path.display());
        (Self::default(), Some(warning))
    }
}

/// Replaces the state.
///
/// # Errors
/// When it cannot be written; the old one stays.
pub(crate) fn save(
    dir: &StateDir,
    fingerprint: u64,
    files: &Files,
    kept: &Kept,
) -> std::io::Result<()> {
    publish(&path(dir), &encode(fingerprint, files, kept))
}

fn encode(fingerprint: u64, files: &Files, kept: &Kept) -> Vec<u8> {
    let mut out = Encoder(Vec::with_capacity(files.len() * FILE + kept.known.len() * CALL + 4096));
    out.0.extend_from_slice(MAGIC);
    out.u64(fingerprint);
    out.len(files.len());
    let mut files: Vec<_> = files.iter().collect();
    files.sort_unstable_by_key(|(key, _)| **key);
    for (key, record) in files {
        out.u128(*key);
        encode_file(&mut out, record);
    }
    out.len(kept.ends.len());
    for (session, end) in &kept.ends {
        out.bytes(session.as_bytes());
        out.i64(end.unix_ms());
    }
    out.len(kept.reported.len());
    for (client, Reported { calls, inferred }) in &kept.reported {
        out.bytes(client.as_bytes());
        out.u64(*calls);
        out.u64(*inferred);
    }
    let mut keys: Vec<_> = kept.known.keys().copied().collect();
    keys.sort_unstable();
    out.len(keys.len());
    for key in keys {
        out.u128(key);
        encode_known(&mut out, &kept.known[&key]);
    }
    let checksum = xxh3_64(&out.0);
    out.u64(checksum);
    out.0
}

fn decode(bytes: &[u8]) -> Option<State> {
    let (body, checksum) = bytes.split_last_chunk::<8>()?;
    if xxh3_64(body) != u64::from_le_bytes(*checksum) {
        return None;
    }
    let mut input = Decoder(body.strip_prefix(MAGIC)?);
    let mut state = State { fingerprint: input.u64()?, ..State::default() };
    let len = input.len()?;
    state.files.reserve(len);
    for _ in 0..len {
        let key = input.u128()?;
        state.files.insert(key, decode_file(&mut input)?);
    }
    let kept = &mut state.kept;
    for _ in 0..input.len()? {
        let session = input.text()?;
        kept.ends.insert(session, Timestamp::from_unix_ms(input.i64()?));
    }
    for _ in 0..input.len()? {
        let client = input.text()?;
        kept.reported.insert(client, Reported { calls: input.u64()?, inferred: input.u64()? });
    }
    for _ in 0..input.len()? {
        let key = input.u128()?;
        kept.known.insert(key, decode_known(&mut input)?);
    }
    input.0.is_empty().then_some(state)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mws_event::Via;

    use super::*;
    use crate::known::{Known, Pending};
    use crate::sighting::{Outcome, Why};

    fn sample() -> State {
        let ts = Timestamp::from_unix_ms(1_772_000_000_000);
        let outcome = Outcome { ok: false, why: Why::NotExecuted, ts: None, ms: None };
        let word = |text: &str| -> Arc<str> { text.into() };
        let call = Pending {
            client: word("claude-code"),
            call_id: "toolu_1".into(),
            tool: word("mail.send"),
            raw: Some(word("mail_send")),
            via: Via::CallTool,
            ts,
            version: Some(word("2.1.0")),
            agent: None,
            server: word("toolbox"),
            ts_of_end: true,
            name_of_end: false,
            claims: vec![(word("A"), None), (word("B"), Some(word("A")))],
            outcome: Some(Outcome { ts: Some(ts), ms: Some(3), ..outcome }),
            reported: Some(false),
            seen: ts,
        };
        let stamp = Stamp { inode: (1, 2), size: 3, mtime_ns: -4, ctime_ns: 5 };
        let link = Link { thread: word("C"), parent: word("B"), is_subagent: true };
        let file = |offset| FileRecord {
            stamp,
            offset,
            head: 7,
            tail: 8,
            root: 6,
            source: 1,
            bad_lines: 2,
            salvaged: 1,
            link: (offset == 2).then(|| link.clone()),
        };
        State {
            fingerprint: 9,
            files: Files::from_iter([(5, file(1)), (u128::MAX, file(2)), (7, file(3))]),
            kept: Kept {
                known: ByHash::from_iter([
                    (1, Known::Done),
                    (2, Known::Result { outcome, reported: None, seen: ts }),
                    (u128::MAX, Known::Call(Box::new(call))),
                ]),
                ends: [(word("A"), ts)].into(),
                reported: [(word("codex"), Reported { calls: 3, inferred: 2 })].into(),
            },
        }
    }

    fn bytes(state: &State) -> Vec<u8> {
        encode(state.fingerprint, &state.files, &state.kept)
    }

    #[test]
    fn what_was_written_reads_back() {
        let state = sample();
        assert_eq!(decode(&bytes(&state)), Some(state));
    }

    #[test]
    fn any_damage_is_noticed() {
        let bytes = bytes(&sample());
        for at in 0..bytes.len() {
            assert_eq!(decode(&bytes[..at]), None, "cut at {at}");
            let mut bad = bytes.clone();
            bad[at] ^= 4;
            assert_eq!(decode(&bad), None, "flipped at {at}");
            // Past the checksum too, nothing panics.
            let body = bad.len() - 8;
            let checksum = xxh3_64(&bad[..body]).to_le_bytes();
            bad[body..].copy_from_slice(&checksum);
            let _ = decode(&bad);
        }
    }
}
