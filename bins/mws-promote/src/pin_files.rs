//! The pins in force: those of the configuration, and those in the front matter of `pinFiles`.
//!
//! Invariant: a file that cannot be used costs one warning that names it, nothing else.
//! Deliberately absent: whether a pin is stale; that takes the log.

use std::path::Path;

use mws_config::{Config, Places};
use mws_policy::{FilePin, Pins};
use mws_state::{ReadError, read_file};

use crate::front_matter::{Prefixes, pinned_tools};

const FILE_MAX: u64 = 256 * 1024;
const MATCHES_MAX: usize = 10_000;

/// All pins; a warning for each file that cannot be used.
pub(crate) fn pins(config: &Config, places: &Places) -> Pins {
    let prefixes = Prefixes::of(config);
    let mut files = Vec::new();
    let mut left = MATCHES_MAX;
    for pattern in &config.pin_files {
        let expanded = places.expand(pattern);
        let matches = match glob::glob(&expanded.to_string_lossy()) {
            Ok(matches) => matches,
            Err(e) => {
                tracing::warn!("pinFiles: '{pattern}' is not a pattern: {e}.");
                continue;
            }
        };
        for found in matches {
            if left == 0 {
                tracing::warn!(
                    "pinFiles: more than {MATCHES_MAX} files match; the rest is skipped."
                );
                return Pins { config: config.pins.clone(), files };
            }
            left -= 1;
            match found.map_err(|e| e.to_string()).and_then(|path| of_file(&path, &prefixes)) {
                Ok(pins) => files.extend(pins),
                Err(e) => tracing::warn!("pinFiles: skipped {e}."),
            }
        }
    }
    Pins { config: config.pins.clone(), files }
}

/// The pins of one file; the error names it.
fn of_file(path: &Path, prefixes: &Prefixes) -> Result<Vec<FilePin>, String> {
    // Dotfile managers put links where the files are expected.
    let real = path.canonicalize().map_err(ReadError::from);
    let (bytes, _) = real
        .and_then(|real| read_file(&real, FILE_MAX))
        .map_err(|e| format!("{}: {e}", path.display()))?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{}: not UTF-8", path.display()))?;
    let tools = pinned_tools(&text, prefixes).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(tools.into_iter().map(|tool| FilePin { tool, file: path.display().to_string() }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn globs_links_and_bad_files() {
        let home = tempfile::tempdir().expect("a directory");
        let file = |name: &str, text: &[u8]| {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("created");
            fs::File::create(&path)
                .and_then(|mut f| std::io::Write::write_all(&mut f, text))
                .expect("written");
            path
        };
        file("skills/a/SKILL.md", b"---\nmws-pins: [one, two]\n---\n");
        file("skills/bad/SKILL.md", b"---\nmws-pins: [\n---\n");
        file("skills/binary/SKILL.md", b"---\nmws-pins: [\xff]\n---\n");
        file(
            "skills/big/SKILL.md",
            &[b"---\nmws-pins: [big]\n---\n", &[b'x'; 300_000][..]].concat(),
        );
        fs::create_dir_all(home.path().join("skills/dir/SKILL.md")).expect("created");
        let elsewhere = file("elsewhere.md", b"---\nmws-pins: three\n---\n");
        fs::create_dir(home.path().join("skills/link")).expect("created");
        std::os::unix::fs::symlink(elsewhere, home.path().join("skills/link/SKILL.md"))
            .expect("linked");
        let places = Places { home: home.path().to_owned(), ..Places::default() };
        let config = Config {
            pins: vec!["zero".into()],
            pin_files: vec!["[".into(), "~/none/*".into(), "~/skills/*/SKILL.md".into()],
            ..Config::defaults(&places)
        };
        let pins = pins(&config, &places);
        let tools: Vec<&str> = pins.files.iter().map(|pin| pin.tool.as_str()).collect();
        assert_eq!((pins.config, tools), (vec!["zero".to_owned()], vec!["one", "two", "three"]));
        assert!(pins.files[0].file.ends_with("skills/a/SKILL.md"), "{:?}", pins.files[0]);
    }
}
