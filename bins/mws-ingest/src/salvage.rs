//! Records of one line, also of a damaged one.
//!
//! Invariant: work on a line is bounded by a multiple of its length, and what is recovered from a
//! damaged line is a whole record, never a part of one.
//! Deliberately absent: repairing a record that is itself cut.

use memchr::memmem;
use serde::de::IgnoredAny;
use serde_json::Deserializer;
use serde_json::value::RawValue;

use crate::lenient::Object;

const BOM: &[u8] = b"\xef\xbb\xbf";
/// Failed attempts may read a damaged line this many times over.
const PASSES: usize = 8;

/// What was wrong with a line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Damage {
    /// It was not one clean record.
    pub(crate) bad: bool,
    /// Records recovered all the same.
    pub(crate) salvaged: u64,
}

/// How sure it is that some bytes are a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// They are a line.
    Line,
    /// They were found in a damaged line, and may be a part of a record.
    Found,
}

/// Hands every record of `line` to `take`, which says whether it is one. Bytes that are not UTF-8
/// are overwritten.
pub(crate) fn records(line: &mut [u8], mut take: impl FnMut(&[u8], Trust) -> bool) -> Damage {
    let clean = trim(line);
    if clean.is_empty() || take(clean, Trust::Line) {
        return Damage::default();
    }
    if replace_invalid_utf8(line) && take(trim(line), Trust::Line) {
        return Damage { bad: true, salvaged: 1 };
    }
    let mut salvaged = 0;
    salvage(line, |record| salvaged += u64::from(take(record, Trust::Found)));
    Damage { bad: true, salvaged }
}

/// Hands a record that was read to `take`; whether it is one. What was only found must be complete.
pub(crate) fn kept<R>(
    read: serde_json::Result<Object<R>>,
    trust: Trust,
    is_complete: impl Fn(&R) -> bool,
    take: impl FnOnce(&R),
) -> bool {
    let Ok(Object(record)) = read else { return false };
    let record = record.filter(|record| trust == Trust::Line || is_complete(record));
    if let Some(record) = &record {
        take(record);
    }
    record.is_some() || trust == Trust::Line
}

/// Tries at every `{"`: whole records follow each other, or one begins where another was cut.
fn salvage(line: &[u8], mut take: impl FnMut(&[u8])) {
    let mut budget = line.len() * PASSES + 4096;
    let mut at = 0;
    while let Some(next) = memmem::find(&line[at..], b"{\"") {
        at += next;
        let mut values = Deserializer::from_slice(&line[at..]).into_iter::<&RawValue>();
        match values.next() {
            Some(Ok(record)) => {
                take(record.get().as_bytes());
                at += values.byte_offset();
            }
            Some(Err(e)) => {
                let read = if e.is_eof() { line.len() - at } else { e.column() };
                let Some(left) = budget.checked_sub(read) else { return };
                budget = left;
                at += 2;
            }
            None => return,
        }
    }
}

fn trim(line: &[u8]) -> &[u8] {
    let mut line = line.trim_ascii();
    line = line.strip_prefix(BOM).unwrap_or(line).trim_ascii();
    while let [0, rest @ ..] | [rest @ .., 0] = line {
        line = rest.trim_ascii();
    }
    line.strip_prefix(BOM).unwrap_or(line)
}

/// Whether there was something to replace.
fn replace_invalid_utf8(mut bytes: &mut [u8]) -> bool {
    let mut replaced = false;
    while let Err(e) = std::str::from_utf8(bytes) {
        replaced = true;
        let (from, len) = (e.valid_up_to(), e.error_len());
        let to = len.map_or(bytes.len(), |len| from + len);
        bytes[from..to].fill(b'?');
        bytes = &mut bytes[to..];
    }
    replaced
}

/// Whether `line` is one whole object, so that a missing newline means nothing.
pub(crate) fn is_whole(line: &[u8]) -> bool {
    let line = trim(line);
    line.starts_with(b"{")
        && line.ends_with(b"}")
        && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const A: &str =
        r#"{"type":"user","sessionId":"A","timestamp":"2026-03-01T00:00:00Z","x":{"type":"y"}}"#;
    const B: &str =
        r#"{"parentUuid":null,"type":"user","sessionId":"B","timestamp":"2026-03-01T00:00:00Z"}"#;

    fn sessions(line: &[u8]) -> (String, Damage) {
        let mut line = line.to_vec();
        let mut seen = String::new();
        let damage = records(&mut line, |bytes, trust| {
            let Ok(record) = serde_json::from_slice::<Value>(bytes) else { return false };
            let session = record["sessionId"].as_str();
            seen.push_str(session.unwrap_or_default());
            trust == Trust::Line || session.is_some()
        });
        (seen, damage)
    }

    #[test]
    fn clean_lines_are_not_damage() {
        for line in [A.to_owned(), format!("\u{feff}{A}\r"), format!("\0\0{A}\0"), format!(" {A} ")]
        {
            assert_eq!(sessions(line.as_bytes()), ("A".into(), Damage::default()), "{line:?}");
        }
        assert_eq!(sessions(b"\0\0\r"), (String::new(), Damage::default()));
    }

    #[test]
    fn whole_records_on_a_damaged_line_are_recovered() {
        let two = |n| Damage { bad: true, salvaged: n };
        assert_eq!(sessions(format!("{A}{B}").as_bytes()), ("AB".into(), two(2)));
        assert_eq!(sessions(format!("{A} \0\0{B}").as_bytes()), ("AB".into(), two(2)));
        assert_eq!(sessions(format!("{A}{}", &B[..20]).as_bytes()), ("A".into(), two(1)));
        let bad_text = [&A.as_bytes()[..A.len() - 1], b",\"version\":\"\xff\xc3\"}"].concat();
        assert_eq!(sessions(&bad_text), ("A".into(), two(1)));
        for cut in 0..A.len() {
            let line = format!("{}{B}", &A[..cut]);
            let (seen, _) = sessions(line.as_bytes());
            assert_eq!(seen, "B", "cut at {cut}");
        }
    }

    #[test]
    fn no_line_costs_more_than_a_multiple_of_its_length() {
        let nested = r#"{"a":"#.repeat(200_000);
        let started = std::time::Instant::now();
        assert_eq!(sessions(nested.as_bytes()).0, "");
        assert!(started.elapsed().as_secs() < 20);
    }
}
