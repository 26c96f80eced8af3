//! Many directions side by side, and how near each is to one.
//!
//! Invariant: sums of whole numbers, so that the order in which they are added does not matter and
//! every machine gives the same. Deliberately absent: what the directions are of.

use crate::vectors::{DIMENSIONS, Row};

/// Numbers of twice the width: processors multiply these faster than those of one byte.
type Numbers = [i16; DIMENSIONS];

/// Products that are added in one go.
const LANES: usize = 8;

/// A direction to compare others with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wide {
    numbers: Numbers,
    scale: f32,
}

impl Wide {
    pub(crate) fn of(row: &Row) -> Self {
        Self { numbers: row.numbers.map(i16::from), scale: row.scale }
    }
}

/// A list of directions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rows {
    numbers: Vec<Numbers>,
    scales: Vec<f32>,
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    pub(crate) fn get(&self, at: usize) -> Option<Row> {
        let (numbers, scale) = (self.numbers.get(at)?, *self.scales.get(at)?);
        Some(Row { numbers: numbers.map(|number| number as i8), scale })
    }

    /// The dot product with one of them; 0 where there is none.
    pub(crate) fn dot(&self, at: usize, row: &Wide) -> f32 {
        let (Some(numbers), Some(scale)) = (self.numbers.get(at), self.scales.get(at)) else {
            return 0.0;
        };
        product(numbers, &row.numbers) as f32 * row.scale * scale
    }

    /// Calls `see` with the place and the dot product of each.
    pub(crate) fn each(&self, row: &Wide, see: &mut impl FnMut(usize, f32)) {
        for (at, (numbers, scale)) in self.numbers.iter().zip(&self.scales).enumerate() {
            see(at, product(numbers, &row.numbers) as f32 * row.scale * scale);
        }
    }
}

impl Extend<Row> for Rows {
    fn extend<I: IntoIterator<Item = Row>>(&mut self, rows: I) {
        for row in rows {
            self.numbers.push(row.numbers.map(i16::from));
            self.scales.push(row.scale);
        }
    }
}

impl FromIterator<Row> for Rows {
    fn from_iter<I: IntoIterator<Item = Row>>(rows: I) -> Self {
        let mut list = Self::default();
        list.extend(rows);
        list
    }
}

/// Kept apart and summed in lanes: so compilers see that one instruction does eight numbers.
#[inline(never)]
fn product(a: &Numbers, b: &Numbers) -> i32 {
    let mut sums = [0; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for ((sum, &a), &b) in sums.iter_mut().zip(a).zip(b) {
            *sum += i32::from(a) * i32::from(b);
        }
    }
    sums.iter().sum()
}
