//! Asking the proxy whether its upstream answers, by `mws-proxy --check`.
//!
//! Invariant: the question ends after [`LIMIT`], whatever the upstream does.
//! Deliberately absent: speaking MCP. How to reach an upstream is known to the proxy alone.

use std::ffi::OsString;
use std::io::{self, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::dispatch;

/// A first start may have to download the upstream.
const LIMIT: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(10);

/// What the proxy says about an upstream that answers.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    ok: bool,
    /// Why not, when it is not.
    #[serde(default)]
    error: String,
    /// Protocol version spoken.
    #[serde(default)]
    pub(crate) protocol: String,
    /// Number of tools.
    #[serde(default)]
    pub(crate) tools: u64,
    /// Milliseconds it took.
    #[serde(default)]
    pub(crate) ms: u64,
}

/// Connects to the upstream and refreshes the catalog.
///
/// # Errors
/// Says why the upstream could not be asked or did not answer.
pub(crate) fn upstream(flags: &[OsString]) -> Result<Answer, String> {
    let program =
        dispatch::find("proxy").ok_or("the program mws-proxy is neither beside mws nor on PATH")?;
    let mut child = Command::new(&program)
        .args(flags)
        .arg("--check")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot run {}: {e}", program.display()))?;
    let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let in_time = wait(&mut child).map_err(|e| format!("cannot wait for mws-proxy: {e}"))?;
    if !in_time {
        return Err(format!("no answer within {} s", LIMIT.as_secs()));
    }
    match serde_json::from_str::<Answer>(text(&stdout).trim()) {
        Ok(answer) if answer.ok => Ok(answer),
        Ok(answer) if !answer.error.is_empty() => Err(answer.error),
        _ => Err(reason(&text(&stderr))),
    }
}

/// What the proxy said on stderr when it gave no answer on stdout.
fn reason(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { "mws-proxy ended without an answer".to_owned() } else { lines.join("; ") }
}

/// Reads a pipe to its end beside the waiting, so that a full pipe stops nobody.
fn drain(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = sync_channel(1);
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read before a failure is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    receiver
}

/// What a pipe held; nothing when a process left behind keeps it open.
fn text(pipe: &Receiver<Vec<u8>>) -> String {
    let bytes = pipe.recv_timeout(GRACE).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Waits until the child ends; kills it and returns false when it takes too long.
fn wait(child: &mut Child) -> io::Result<bool> {
    let started = Instant::now();
    while child.try_wait()?.is_none() {
        if started.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        thread::sleep(POLL);
    }
    Ok(true)
}
