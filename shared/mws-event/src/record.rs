//! Every event that is not a tool call: searches, lists, publications, the life of the proxy.
//!
//! Invariant: fields are counts, sizes, hashes, tool names and client names, nothing free-form.
//! Deliberately absent: query text and upstream error text.

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::call::first_version;

/// A line with an `event` field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// When it happened.
    pub ts: Timestamp,
    /// What happened, with its fields.
    #[serde(flatten)]
    pub kind: Kind,
    /// Line format version.
    #[serde(default = "first_version")]
    pub v: u32,
    /// Unique id of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl Record {
    /// A record without an id; the log's writer gives it one.
    pub fn new(ts: Timestamp, kind: Kind) -> Self {
        Self { ts, kind, v: crate::VERSION, id: None }
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Kind {
    /// `search_tools` was answered.
    Search {
        /// Size of the reply in bytes.
        bytes: u64,
        /// Number of tools in the reply.
        results: u64,
        /// Client name.
        #[serde(default)]
        client: String,
        /// Kind of the reply: `exact`, `backend`, `ranked`, `overview`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kind: Option<String>,
        /// Milliseconds spent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ms: Option<u64>,
        /// Session id as the client names it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// Hash of the protocol session or of the stdio process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conn: Option<String>,
    },
    /// `tools/list` was answered.
    List {
        /// Number of tools listed, meta-tools included.
        listed: u64,
        /// Number of tools in the catalog.
        catalog: u64,
        /// Size of the listed tools in bytes.
        bytes: u64,
        /// Size of the whole catalog's tools in bytes.
        catalog_bytes: u64,
        /// Client name.
        #[serde(default)]
        client: String,
    },
    /// The upstream's tool list differs from the last one seen.
    CatalogChanged {
        /// Hash of the new catalog, 16 hex digits.
        hash: String,
        /// Number of tools.
        tools: u64,
        /// Size of the tools in bytes.
        bytes: u64,
        /// Tools that are new.
        added: u64,
        /// Tools that are gone.
        removed: u64,
    },
    /// The upstream could not be reached or did not answer.
    UpstreamFailed {
        /// What was attempted: `connect`, `list`, `call`, `forward`.
        op: String,
        /// Class of the failure: `refused`, `timeout`, `closed`, `http`, `protocol`, `spawn`.
        kind: String,
        /// Milliseconds spent.
        ms: u64,
    },
    /// `working-set.json` was replaced.
    WorkingSetPublished {
        /// Hash of the artifact, 16 hex digits.
        hash: String,
        /// Number of tools in the set.
        tools: u64,
        /// Names that came in.
        #[serde(default)]
        promoted: Vec<String>,
        /// Names that went out.
        #[serde(default)]
        demoted: Vec<String>,
    },
    /// This definition of a tool holds: it is the one that a model may be told.
    DefinitionPinned {
        /// Upstream name.
        tool: String,
        /// Hash of the definition, 16 hex digits.
        hash: String,
    },
    /// A tool's definition is another one than was accepted.
    DefinitionChanged {
        /// Upstream name.
        tool: String,
        /// Hash of the present definition, 16 hex digits.
        hash: String,
        /// Hash of the accepted one.
        pinned: String,
    },
    /// The search snapshot was replaced.
    IndexPublished {
        /// Hash of the snapshot, 16 hex digits.
        hash: String,
        /// Hash of the catalog it was built from, 16 hex digits.
        catalog_hash: String,
        /// Number of tools.
        tools: u64,
        /// Size of the snapshot in bytes.
        bytes: u64,
    },
    /// A run of the transcript reader ended.
    IngestRun {
        /// Files read.
        files: u64,
        /// Bytes read.
        read_bytes: u64,
        /// Calls appended.
        calls: u64,
        /// Calls without a result so far.
        open: u64,
        /// Lines that could not be read.
        bad_lines: u64,
        /// Records recovered from damaged lines.
        salvaged: u64,
        /// Warnings given.
        warnings: u64,
        /// Milliseconds spent.
        ms: u64,
    },
    /// A published file was damaged; the last good one stays in use.
    ArtifactRejected {
        /// Which one: `working-set`, `catalog`, `index`.
        artifact: String,
    },
    /// The proxy started.
    Started {
        /// Version of the proxy.
        version: String,
        /// Process id.
        pid: u64,
    },
    /// The proxy stopped in good order.
    Stopped {
        /// Process id.
        pid: u64,
    },
    /// Events were lost before they reached the log.
    Dropped {
        /// How many.
        n: u64,
    },
    /// A kind of a later version; kept in the log, skipped by every fold.
    #[serde(other)]
    Unknown,
}
