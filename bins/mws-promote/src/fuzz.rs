//! What the fuzz target asks of the front matter reader. Only built for it.
//!
//! Invariant: it panics when a promise of the reader is broken.
//! Deliberately absent: anything that a program or another test may call.

use mws_config::{Config, Places};

use crate::front_matter::{Prefixes, pinned_tools};

/// Reads a file and looks at what it pins.
pub fn front_matter(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let prefixes = Prefixes::of(&Config::defaults(&Places::default()));
    match pinned_tools(&text, &prefixes) {
        Ok(tools) => assert!(tools.iter().all(|tool| !tool.is_empty() && !tool.contains('*'))),
        Err(why) => assert!(!why.contains('\n'), "{why}"),
    }
}
