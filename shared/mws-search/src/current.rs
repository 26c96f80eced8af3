//! The line that names the snapshot in force.
//!
//! Invariant: a line that parses names a file in the same directory. Deliberately absent: reading
//! files.

use std::fmt;

/// Which snapshot is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Current {
    /// File name, without a directory.
    pub file: String,
    /// Counts up with every publication.
    pub generation: u64,
    /// xxh3 of the whole file.
    pub checksum: u64,
    /// [`crate::Index::catalog_hash`] of the snapshot.
    pub catalog_hash: u64,
    /// [`crate::FORMAT`] of the snapshot.
    pub format: u32,
}

impl Current {
    /// Reads the line; `None` when it is damaged or names a file elsewhere.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim_end().split(' ');
        let file = parts.next().filter(|file| is_plain(file))?.to_owned();
        let generation = parts.next()?.parse().ok()?;
        let checksum = hex(parts.next()?)?;
        let catalog_hash = hex(parts.next()?)?;
        let format = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Self { file, generation, checksum, catalog_hash, format })
    }
}

impl fmt::Display for Current {
    /// The line, with its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, generation, checksum, catalog_hash, format } = self;
        writeln!(f, "{file} {generation} {checksum:016x} {catalog_hash:016x} {format}")
    }
}

fn is_plain(file: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    file.starts_with("gen-") && file.ends_with(".mwsx") && file.chars().all(plain)
}

fn hex(text: &str) -> Option<u64> {
    (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_round_trips() {
        let current = Current {
            file: "gen-7-00000000000000ff.mwsx".to_owned(),
            generation: 7,
            checksum: u64::MAX,
            catalog_hash: 255,
            format: 1,
        };
        assert_eq!(Current::parse(&current.to_string()), Some(current));
    }

    #[test]
    fn damaged_lines_and_other_places_are_refused() {
        let tail = "7 00000000000000ff 00000000000000ff 1";
        assert!(Current::parse(&format!("gen-7.mwsx {tail}")).is_some());
        for line in [
            "",
            "gen-7.mwsx 7 ff",
            &format!("../gen-7.mwsx {tail}"),
            &format!("gen-/x.mwsx {tail}"),
            &format!("gen-7.mwsx {tail} x"),
        ] {
            assert_eq!(Current::parse(line), None, "{line}");
        }
    }
}
