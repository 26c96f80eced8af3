//! The file that `mws init` writes.
//!
//! Invariant: it holds the defaults, so writing it changes nothing.
//! Deliberately absent: settings that few people need; the README lists them.

/// A configuration with every common field at its default.
pub const DEFAULT_CONFIG: &str = r#"{
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
  },
  "transcripts": [{ "type": "claude-code", "root": "~/.claude/projects" }]
}
"#;
