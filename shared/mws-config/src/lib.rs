//! The one JSON configuration file.
//!
//! Invariant: every field is optional, a missing file means all defaults, and whatever is wrong
//! is reported with the path of the file and of the field. An unknown field is a warning.
//! Deliberately absent: secrets in memory before they are needed; header and env values stay
//! references until [`Secret::resolve`].

mod config;
mod fields;
mod listen;
mod load;
mod nearest;
mod paths;
mod promote;
mod retention;
mod secret;
mod template;
mod tools;
mod url;

pub use config::{Config, Search, TranscriptRoot, Upstream, UpstreamKind};
pub use listen::{Listen, Token, TokenSource};
pub use load::{ConfigError, Loaded, load, parse};
pub use nearest::{nearest, nearest_names};
pub use paths::Places;
pub use promote::{ColdStart, OnChange, Rule, Thresholds};
pub use retention::{Retention, looks_back};
pub use secret::Secret;
pub use template::default_config;
pub use tools::ToolRules;
