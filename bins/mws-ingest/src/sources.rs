//! The table of transcript types.
//!
//! Invariant: all that is particular to a client is in its reader; adding one is adding a row.
//! Deliberately absent: clients whose calls only the proxy's own log shows.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use mws_config::Places;
use mws_event::Timestamp;

use crate::claude_code;
use crate::codex;
use crate::gemini_cli;
use crate::names::Names;
use crate::qwen_code;
use crate::scan::{Consumed, Tail, Window};
use crate::sighting::Batch;

/// Call ids below this length are not unique beyond their session.
pub(crate) const SHORT_ID: usize = 20;

/// One file to be read.
#[derive(Debug)]
pub(crate) struct Task<'a> {
    /// Where it is.
    pub(crate) path: &'a Path,
    /// Stands in for a missing time.
    pub(crate) mtime: Timestamp,
    /// Whose calls are looked for.
    pub(crate) names: &'a Names,
    /// The file's first line, when reading goes on behind it and the reader wants it.
    pub(crate) first_line: Option<Vec<u8>>,
}

/// Reads a file from where it stands.
pub(crate) type Reader =
    fn(&Task<'_>, &mut dyn Read, &mut Window, Tail) -> io::Result<(Consumed, Batch)>;

/// A type of transcripts.
#[derive(Debug)]
pub(crate) struct Source {
    /// `type` of the configuration, and the client's name in events.
    pub(crate) name: &'static str,
    /// Where the client keeps them unless told otherwise.
    pub(crate) default_roots: fn(&Places) -> Vec<PathBuf>,
    /// The directories to look through when a root is given.
    pub(crate) narrow: fn(&Path) -> Vec<PathBuf>,
    /// Whether a file, or a directory, of this name is to be looked at.
    pub(crate) wants: fn(&OsStr, bool) -> bool,
    /// Whether the first line of a file says what the others mean.
    pub(crate) wants_first_line: bool,
    /// Reads a file from where it stands.
    pub(crate) read: Reader,
}

/// All types that are read.
pub(crate) static SOURCES: [Source; 4] = [
    Source {
        name: "claude-code",
        default_roots: claude_code::default_roots,
        narrow: |root| vec![root.to_owned()],
        wants: claude_code::wants,
        wants_first_line: false,
        read: claude_code::read,
    },
    Source {
        name: "codex",
        default_roots: codex::default_roots,
        narrow: codex::narrow,
        wants: codex::wants,
        wants_first_line: true,
        read: codex::read,
    },
    Source {
        name: "gemini-cli",
        default_roots: gemini_cli::default_roots,
        narrow: gemini_cli::narrow,
        wants: gemini_cli::wants,
        wants_first_line: true,
        read: gemini_cli::read,
    },
    Source {
        name: "qwen-code",
        default_roots: qwen_code::default_roots,
        narrow: qwen_code::narrow,
        wants: qwen_code::wants,
        wants_first_line: false,
        read: qwen_code::read,
    },
];

impl Source {
    /// Its place in the table, which is what the state keeps.
    pub(crate) fn code(&self) -> u8 {
        SOURCES.iter().position(|source| source.name == self.name).map_or(0, |at| at as u8)
    }
}
