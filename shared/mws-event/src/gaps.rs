//! Events that are missing: gaps in the numbers that each writer gave its events.
//!
//! Invariant: repeated lines and their order change nothing. What is missing before the first and
//! after the last number of a writer is not counted, so a log cut at its beginning has no gaps.
//! Deliberately absent: ids of other forms, which say nothing about their neighbours.

use std::collections::HashMap;

use crate::id::split;

/// The numbers seen of each writer.
#[derive(Debug, Default)]
pub struct Gaps {
    writers: HashMap<String, Vec<u64>>,
}

impl Gaps {
    /// Takes in the id of an event.
    pub fn take_in(&mut self, id: &str) {
        let Some((writer, number)) = split(id) else { return };
        match self.writers.get_mut(writer) {
            Some(numbers) => numbers.push(number),
            None => drop(self.writers.insert(writer.to_owned(), vec![number])),
        }
    }

    /// How many events are missing between others.
    pub fn missing(mut self) -> u64 {
        let gaps = self.writers.values_mut().map(|numbers| {
            numbers.sort_unstable();
            let steps = numbers.windows(2).map(|pair| (pair[1] - pair[0]).saturating_sub(1));
            steps.fold(0, u64::saturating_add)
        });
        gaps.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Timestamp, WriterId};

    #[test]
    fn only_what_lies_between_is_missing() {
        let ids = |random| {
            let mut writer = WriterId::new(Timestamp::from_unix_ms(1_700_000_000_000), random);
            (0..12).map(|_| writer.next_id()).collect::<Vec<_>>()
        };
        let (a, b) = (ids(1), ids(2));
        let missing = |ids: &[&String]| {
            let mut gaps = Gaps::default();
            ids.iter().for_each(|id| gaps.take_in(id));
            gaps.missing()
        };
        assert_eq!(missing(&a.iter().chain(&b).collect::<Vec<_>>()), 0);
        assert_eq!(missing(&[&a[4], &a[5], &a[6], &b[11]]), 0);
        assert_eq!(missing(&[&a[11], &a[0], &a[4], &a[4], &b[3], &b[5]]), 10);
    }

    #[test]
    fn ids_of_other_forms_are_passed() {
        let mut gaps = Gaps::default();
        for id in ["w.1", "w.9", "", ".", "18bcfe56800abcdef.x", "18bcfe56800abcdef.09", "x.1.7"] {
            gaps.take_in(id);
        }
        assert_eq!(gaps.missing(), 0);
    }
}
