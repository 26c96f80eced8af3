//! The line that names the snapshot in force.
//!
//! Invariant: a line that parses names a file in the same directory, and only a snapshot that the
//! line describes in every point is loaded. Deliberately absent: reading files; the caller does it.

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

use crate::Index;

/// The largest snapshot that is read, in bytes.
pub const SNAPSHOT_MAX: u64 = 256 << 20;

/// How often the line is read again when its file has just been cleared away.
const TRIES: usize = 5;

/// Loads the snapshot in force. `read` gives the bytes of a file in the index directory, `None` when
/// there is none; it is called with `CURRENT` and with the name that stands in it.
///
/// # Errors
/// Says what is damaged. `Ok(None)`: nothing was published yet.
pub fn load(read: &dyn Fn(&str) -> Option<Vec<u8>>) -> Result<Option<(Current, Index)>, String> {
    let mut missing = String::new();
    for _ in 0..TRIES {
        let Some(line) = read("CURRENT") else { return Ok(None) };
        let line = String::from_utf8_lossy(&line);
        let current = Current::parse(&line).ok_or("index/CURRENT is damaged")?;
        let Some(bytes) = read(&current.file) else {
            missing = current.file;
            continue;
        };
        if xxh3_64(&bytes) != current.checksum {
            return Err(format!("{} is damaged", current.file));
        }
        let index = Index::from_snapshot(&bytes).map_err(|e| format!("{}: {e}", current.file))?;
        if index.catalog_hash() != current.catalog_hash {
            return Err(format!("{} is of another catalog than CURRENT says", current.file));
        }
        return Ok(Some((current, index)));
    }
    Err(format!("{missing} is missing"))
}

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
    fn only_the_described_snapshot_is_loaded() {
        let index = Index::default();
        let bytes = index.to_snapshot();
        let line = |checksum, catalog_hash| Current {
            file: "gen-1-0.mwsx".to_owned(),
            generation: 1,
            checksum,
            catalog_hash,
            format: 1,
        };
        let load = |line: String, bytes: Option<Vec<u8>>| {
            let read = |name: &str| match name {
                "CURRENT" => Some(line.clone().into_bytes()),
                _ => bytes.clone(),
            };
            load(&read).map(|found| found.is_some())
        };
        let good = line(xxh3_64(&bytes), 0).to_string();
        assert_eq!(load(good.clone(), Some(bytes.clone())), Ok(true));
        assert!(load(good, None).unwrap_err().contains("missing"));
        assert!(load(line(1, 0).to_string(), Some(bytes.clone())).unwrap_err().contains("damaged"));
        let other = line(xxh3_64(&bytes), 1).to_string();
        assert!(load(other, Some(bytes)).unwrap_err().contains("another catalog"));
        assert_eq!(super::load(&|_| None).map(|found| found.is_some()), Ok(false));
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
