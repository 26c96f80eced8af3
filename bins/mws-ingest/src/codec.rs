//! Numbers and strings to bytes and back.
//!
//! Invariant: reading never panics and never allocates more than the input is long.
//! Deliberately absent: versions and checksums, which are the caller's.

use std::sync::Arc;

/// Bytes being written.
#[derive(Debug, Default)]
pub(crate) struct Encoder(pub(crate) Vec<u8>);

impl Encoder {
    /// One byte.
    pub(crate) fn byte(&mut self, n: u8) {
        self.0.push(n);
    }

    /// An unsigned number.
    pub(crate) fn u64(&mut self, n: u64) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    /// A small unsigned number.
    pub(crate) fn u32(&mut self, n: u32) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    /// A signed number.
    pub(crate) fn i64(&mut self, n: i64) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    /// A key.
    pub(crate) fn u128(&mut self, n: u128) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    /// How many of something follow.
    pub(crate) fn len(&mut self, n: usize) {
        self.u64(n as u64);
    }

    /// Bytes with their length.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.0.extend_from_slice(bytes);
    }

    /// A string that may be absent.
    pub(crate) fn optional(&mut self, text: Option<&str>) {
        self.byte(u8::from(text.is_some()));
        self.bytes(text.unwrap_or_default().as_bytes());
    }
}

/// Bytes being read; `None` is damage.
#[derive(Debug)]
pub(crate) struct Decoder<'a>(pub(crate) &'a [u8]);

impl<'a> Decoder<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    /// One byte.
    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[n]| n)
    }

    /// An unsigned number.
    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A small unsigned number.
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A signed number.
    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    /// A key.
    pub(crate) fn u128(&mut self) -> Option<u128> {
        self.array().map(u128::from_le_bytes)
    }

    /// How many of something follow, each at least a byte long.
    pub(crate) fn len(&mut self) -> Option<usize> {
        let n = usize::try_from(self.u64()?).ok()?;
        (n <= self.0.len()).then_some(n)
    }

    /// Bytes with their length.
    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = self.u32()?;
        self.take(usize::try_from(n).ok()?)
    }

    /// A string.
    pub(crate) fn text(&mut self) -> Option<Arc<str>> {
        std::str::from_utf8(self.bytes()?).ok().map(Arc::from)
    }

    /// A string that may be absent.
    pub(crate) fn optional(&mut self) -> Option<Option<Arc<str>>> {
        let present = self.byte()? == 1;
        let text = self.text()?;
        Some(present.then_some(text))
    }
}
