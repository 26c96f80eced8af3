//! The bytes of documents and snapshots: little-endian numbers and length-prefixed text.
//!
//! Invariant: reading never goes past the end and never allocates more than the bytes at hand could
//! fill. Deliberately absent: a schema; writer and reader of each type stand side by side.

/// Appends values.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn f32(&mut self, value: f32) {
        self.0.extend(value.to_le_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.extend(text.as_bytes());
    }

    /// A length. Nothing here comes near four thousand million.
    pub(crate) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    pub(crate) fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.count(items.len());
        for item in items {
            write(self, item);
        }
    }
}

/// Takes values from the front; `None` as soon as something does not fit.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(length)?;
        self.0 = tail;
        Some(head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// A finite number that is not negative.
    pub(crate) fn f32(&mut self) -> Option<f32> {
        let value = f32::from_le_bytes(self.take(4)?.try_into().ok()?);
        (value.is_finite() && value >= 0.0).then_some(value)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length = self.u32()? as usize;
        std::str::from_utf8(self.take(length)?).ok()
    }

    /// A list whose items take at least `size` bytes each.
    pub(crate) fn list<T>(
        &mut self,
        size: usize,
        mut read: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.u32()? as usize;
        if count.checked_mul(size)? > self.0.len() {
            return None;
        }
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(read(self)?);
        }
        Some(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut writer = Writer::default();
        writer.u8(7);
        writer.u64(u64::MAX);
        writer.f32(0.5);
        writer.list(&["a", "é"], |w, text| w.text(text));
        let mut reader = Reader(&writer.0);
        assert_eq!((reader.u8(), reader.u64(), reader.f32()), (Some(7), Some(u64::MAX), Some(0.5)));
        assert_eq!(reader.list(4, Reader::text), Some(vec!["a", "é"]));
        assert!(reader.0.is_empty());
    }

    #[test]
    fn lies_about_lengths_are_refused() {
        assert_eq!(Reader(&[255, 255, 255, 255, 1]).text(), None);
        assert_eq!(Reader(&[255, 255, 255, 127, 1]).list(1, Reader::u8), None);
        assert_eq!(Reader(&f32::NAN.to_le_bytes()).f32(), None);
        assert_eq!(Reader(&[1, 0, 0, 0, 255]).text(), None);
    }
}
