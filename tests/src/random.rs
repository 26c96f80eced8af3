//! Numbers that look random and are the same in every run.
//!
//! Invariant: what comes follows from the seed, so that a failure can be had again.
//! Deliberately absent: good randomness.

/// The numbers that follow from one seed, which must not be 0.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// A number below `limit`; 0 where there is none.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit.max(1)
    }

    /// A place in a list of this length.
    pub fn place(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap()
    }
}
