//! The configuration as values, with its defaults.
//!
//! Invariant: `Config::defaults` equals what parsing `{}` gives.
//! Deliberately absent: anything that only says how one process runs; those are flags.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::promote::{ColdStart, OnChange, Thresholds};
use crate::{Listen, Places, Retention, Secret, ToolRules};

/// All settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The MCP server behind the proxy.
    pub upstream: Upstream,
    /// Where the proxy listens.
    pub listen: Listen,
    /// State directory.
    pub state_dir: PathBuf,
    /// Name under which clients know the proxy.
    pub server_name: String,
    /// Other names under which the same proxy is registered.
    pub server_aliases: Vec<String>,
    /// Words that describe a backend, indexed for search.
    pub backend_hints: BTreeMap<String, String>,
    /// Which tools of the upstream exist for clients.
    pub tools: ToolRules,
    /// Tools that are listed always.
    pub pins: Vec<String>,
    /// Globs of files whose front matter pins tools; `~` is not expanded yet.
    pub pin_files: Vec<String>,
    /// Thresholds of promotion.
    pub promote: Thresholds,
    /// What is listed before the first promotion.
    pub cold_start: ColdStart,
    /// What happens to a promoted tool whose definition changed.
    pub on_change: OnChange,
    /// Transcript roots; `None` means the default places of each client.
    pub transcripts: Option<Vec<TranscriptRoot>>,
    /// Mark listed tools so that clients with a search of their own keep them loaded.
    pub client_hints: bool,
    /// Slim the schemas of listed tools without loss.
    pub slim_schemas: bool,
    /// Tell clients when a promotion changes the listing.
    pub notify_on_promotion: bool,
    /// Minutes of silence that end a session known only from the proxy's log.
    pub session_gap_minutes: u32,
    /// Search settings.
    pub search: Search,
    /// How long the log is kept.
    pub retention: Retention,
    /// Seconds that a stateless client has to answer what the upstream asked it.
    pub input_wait_seconds: u32,
}

/// The upstream server and how to talk to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// By HTTP or as a child process.
    pub kind: UpstreamKind,
    /// Protocol version to use, `None` = find out.
    pub protocol: Option<String>,
    /// How long a request may go without a word of the upstream.
    pub timeout_seconds: u32,
    /// Pass the client's `Authorization` header on.
    pub forward_authorization: bool,
}

/// How the upstream is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpstreamKind {
    /// Streamable HTTP.
    Http {
        /// Endpoint.
        url: String,
        /// Headers added to each request.
        headers: Vec<(String, Secret)>,
    },
    /// A child process that speaks on stdin and stdout.
    Command {
        /// Program, looked up on the PATH.
        command: String,
        /// Arguments; no shell sees them.
        args: Vec<String>,
        /// Environment variables added.
        env: Vec<(String, Secret)>,
        /// Working directory.
        cwd: Option<PathBuf>,
    },
}

/// One root of client transcripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptRoot {
    /// Client, for example `claude-code`.
    pub kind: String,
    /// Directory, with `~` expanded.
    pub root: PathBuf,
}

/// Search settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// Use the word vectors of the snapshot, when it has them.
    pub vectors: bool,
    /// File with the user's own synonyms, with `~` expanded.
    pub synonyms: Option<PathBuf>,
    /// Say in the server's instructions how to search.
    pub instructions: bool,
}

impl Search {
    /// The text of the user's synonyms; empty when the configuration names none.
    ///
    /// # Errors
    /// Names the field and the file that cannot be read.
    pub fn read_synonyms(&self) -> Result<String, String> {
        let Some(path) = &self.synonyms else { return Ok(String::new()) };
        std::fs::read_to_string(path)
            .map_err(|e| format!("search.synonyms: cannot read {}: {e}", path.display()))
    }
}

impl Upstream {
    /// True when the file itself holds a header or variable, rather than where to find it.
    pub fn holds_secrets(&self) -> bool {
        let (UpstreamKind::Http { headers: values, .. }
        | UpstreamKind::Command { env: values, .. }) = &self.kind;
        values.iter().any(|(_, value)| value.is_literal())
    }
}

impl Config {
    /// The settings of a missing file.
    pub fn defaults(places: &Places) -> Self {
        Self {
            upstream: Upstream {
                kind: UpstreamKind::Http {
                    url: "http://127.0.0.1:4483/mcp".into(),
                    headers: Vec::new(),
                },
                protocol: None,
                timeout_seconds: 300,
                forward_authorization: false,
            },
            listen: Listen {
                host: "127.0.0.1".into(),
                port: 4484,
                unix: None,
                auth: None,
                allowed_hosts: None,
                allowed_origins: None,
            },
            state_dir: places.state_dir(),
            server_name: "toolbox".into(),
            server_aliases: Vec::new(),
            backend_hints: BTreeMap::new(),
            tools: ToolRules::default(),
            pins: Vec::new(),
            pin_files: vec!["~/.claude/skills/*/SKILL.md".into()],
            promote: Thresholds::default(),
            cold_start: ColdStart::default(),
            on_change: OnChange::default(),
            transcripts: None,
            client_hints: true,
            slim_schemas: true,
            notify_on_promotion: false,
            session_gap_minutes: 30,
            search: Search { vectors: true, synonyms: None, instructions: true },
            retention: Retention::default(),
            input_wait_seconds: 180,
        }
    }
}
