//! The demo's own world: a temporary directory with config, state and transcripts.
//!
//! Invariant: nothing outside the directory is read or written; it goes when the demo ends.
//! Deliberately absent: the user's config, state and transcripts.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use mws_cli::Failure;
use mws_event::Timestamp;
use mws_state::StateDir;
use serde_json::json;
use tempfile::TempDir;

use super::transcripts::write_samples;
use crate::dispatch;

const PORT: u16 = 4484;

/// The temporary directory and what is in it.
pub(crate) struct Lab {
    dir: TempDir,
    /// Number of transcripts.
    pub(crate) transcripts: usize,
}

impl Lab {
    /// Makes the directory, with this program's `demo-upstream` as upstream.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn create(now: Timestamp) -> Result<Self, Failure> {
        let dir = tempfile::Builder::new().prefix("mws-demo-").tempdir()?;
        let root = dir.path().join("transcripts");
        let transcripts = write_samples(&root, now)?;
        let config = json!({
            "upstream": {"command": std::env::current_exe()?, "args": ["demo-upstream"]},
            "listen": {"host": "127.0.0.1", "port": free_port()},
            "pinFiles": [],
            "backendHints": {"mail": "mailbox and filters", "drive": "files and docs"},
            "transcripts": [{"type": "claude-code", "root": root}],
        });
        let lab = Self { dir, transcripts };
        mws_state::publish(&lab.config(), config.to_string().as_bytes())?;
        Ok(lab)
    }

    /// Its state directory.
    pub(crate) fn state(&self) -> StateDir {
        StateDir::at(self.dir.path().join("state"))
    }

    fn config(&self) -> PathBuf {
        self.dir.path().join("config.json")
    }

    /// The program `mws-<name>`, told to use this directory.
    ///
    /// # Errors
    /// When there is no such program.
    pub(crate) fn command(&self, name: &str) -> Result<Command, Failure> {
        let path = dispatch::find(name).ok_or_else(|| {
            Failure::failed(format!("mws-{name} is neither beside mws nor on PATH"))
                .hint("build all programs: cargo build --release")
        })?;
        let mut command = Command::new(path);
        command.arg("--config").arg(self.config());
        command.arg("--state-dir").arg(self.state().root());
        Ok(command)
    }

    /// Runs `mws-<name>` to its end; returns what it printed.
    ///
    /// # Errors
    /// When it cannot be run or fails.
    pub(crate) fn run(&self, name: &str) -> Result<String, Failure> {
        let output = self.command(name)?.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(Failure::failed(format!("mws-{name} ended with {}", output.status)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }
}

/// The usual port, or 0 for any other when it is taken.
fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", PORT)).map_or(0, |_| PORT)
}
