//! The file that `mws init` writes.
//!
//! Invariant: it holds the defaults, so writing it changes nothing.
//! Deliberately absent: settings that few people need, which the README lists, and `transcripts`:
//! left out, it means the folders of all clients, wherever their variables put them.

use crate::Places;

/// The directory that the text below names.
const STATE_DIR: &str = "~/.local/state/mcp-working-set";

/// A configuration with every common field at its default, in the places of this user.
pub fn default_config(places: &Places) -> String {
    match &places.xdg_state {
        None => DEFAULT_CONFIG.to_owned(),
        Some(_) => DEFAULT_CONFIG.replace(STATE_DIR, &places.state_dir().to_string_lossy()),
    }
}

const DEFAULT_CONFIG: &str = r#"{
  "upstream": { "url": "http://127.0.0.1:4483/mcp" },
  "listen": { "host": "127.0.0.1", "port": 4484 },
  "stateDir": "~/.local/state/mcp-working-set",
  "serverName": "toolbox",
  "backendHints": {},
  "pins": [],
  "pinFiles": ["~/.claude/skills/*/SKILL.md"],
  "promote": {
    "minSessions": 2,
    "minCalls": 1,
    "windowDays": 30,
    "keepDays": 60,
    "pinDecayDays": 90
  }
}
"#;
