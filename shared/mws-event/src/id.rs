//! Event ids: unique without coordination, and a gap in the counter is a measured loss.
//!
//! Invariant: ids of one writer sort by the order of writing within the same number of digits.
//! Deliberately absent: the source of randomness; the caller hands it in.

use crate::Timestamp;

const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
/// Random characters behind the time.
const SUFFIX: usize = 6;

/// Names one writing process and counts its events.
#[derive(Debug, Clone)]
pub struct WriterId {
    name: String,
    next: u64,
}

impl WriterId {
    /// A writer started at `start`; `random` tells writers of the same millisecond apart.
    pub fn new(start: Timestamp, random: u64) -> Self {
        let suffix: String =
            (0..SUFFIX).map(|i| char::from(ALPHABET[(random >> (5 * i)) as usize & 31])).collect();
        Self { name: format!("{:x}{suffix}", start.unix_ms()), next: 0 }
    }

    /// The next id, `<writer>.<n>`.
    pub fn next_id(&mut self) -> String {
        self.next += 1;
        format!("{}.{}", self.name, self.next)
    }
}

/// Writer and number of an id of this form.
pub(crate) fn split(id: &str) -> Option<(&str, u64)> {
    let (writer, number) = id.split_once('.')?;
    let start = writer.len().checked_sub(SUFFIX).filter(|start| *start > 0)?;
    let (start, suffix) = (writer.get(..start)?, writer.get(start..)?);
    let is_ours = start.bytes().all(|b| b.is_ascii_hexdigit())
        && suffix.bytes().all(|b| ALPHABET.contains(&b));
    let is_number = number.bytes().all(|b| b.is_ascii_digit()) && !number.starts_with('0');
    if is_ours && is_number { Some((writer, number.parse().ok()?)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_count_up_and_differ_between_writers() {
        let start = Timestamp::from_unix_ms(1_700_000_000_000);
        let mut a = WriterId::new(start, 1);
        let mut b = WriterId::new(start, 2);
        let first = a.next_id();
        assert!(first.ends_with(".1"));
        assert!(a.next_id().ends_with(".2"));
        assert_ne!(first, b.next_id());
    }
}
