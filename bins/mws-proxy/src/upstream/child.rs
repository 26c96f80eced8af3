//! Starting and ending the upstream's process.
//!
//! Invariant: no shell; a clean environment; a process group of its own, which is ended whole.
//! On Linux the process ends also when the proxy is killed.
//! Deliberately absent: what is said on its pipes.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::Child;
use tokio::sync::oneshot;

use crate::fault::{Fault, FaultKind};
use crate::lock::lock;

/// Variables that pass: who and where one is, and how the network is reached. Everything else, keys
/// above all, must be configured.
const ENV: [&str; 21] = [
    "ALL_PROXY",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "NODE_EXTRA_CA_CERTS",
    "NO_PROXY",
    "PATH",
    "REQUESTS_CA_BUNDLE",
    "SHELL",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];
/// Variables whose names begin so pass, too: the user's directories and npm's settings.
const ENV_PREFIXES: [&str; 3] = ["XDG_", "npm_config_", "NPM_CONFIG_"];
/// The first word of a command line that turns the proxy's program into another.
pub(crate) const BECOME: &str = "--become";
/// The program that runs.
const SELF: &str = "/proc/self/exe";
/// What is kept of stderr, in bytes, to explain an early end.
const STDERR_TAIL: usize = 2048;
/// How long an ended process's output may still be on its way.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// What to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) cwd: Option<PathBuf>,
}

/// The end of the process's stderr, as it comes.
pub(crate) type Tail = Arc<Mutex<Vec<u8>>>;

impl Command {
    /// Starts the process with pipes on all three ends.
    ///
    /// # Errors
    /// Names the command and, when it was not found, the PATH that was searched.
    pub(crate) fn start(&self) -> Result<(Child, Tail), Fault> {
        let mut command = self.command()?;
        command.env_clear();
        command.envs(ENV.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs(std::env::vars_os().filter(|(name, _)| {
            let name = name.to_str().unwrap_or_default();
            ENV_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        }));
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(dir) = &self.cwd {
            command.current_dir(dir);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).kill_on_drop(true);
        let mut child = command.spawn().map_err(|e| self.not_started(&e))?;
        let tail = Tail::default();
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(keep_tail(stderr, Arc::clone(&tail)));
        }
        Ok((child, tail))
    }

    /// The command itself, or the proxy's own program, which turns into it.
    fn command(&self) -> Result<tokio::process::Command, Fault> {
        if !cfg!(target_os = "linux") || !Path::new(SELF).exists() {
            let mut command = tokio::process::Command::new(&self.program);
            command.args(&self.args);
            return Ok(command);
        }
        // Who turns into it could no longer say that it does not exist.
        let file = self.found().ok_or_else(|| self.not_started(&ErrorKind::NotFound.into()))?;
        let mut command = tokio::process::Command::new(SELF);
        command.arg(BECOME).arg(std::process::id().to_string()).arg(file).args(&self.args);
        Ok(command)
    }

    /// The file that the program's name means, as the process will look for it.
    fn found(&self) -> Option<PathBuf> {
        let is_program = |file: &Path| {
            file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
        };
        if self.program.contains('/') {
            let file = self.cwd.as_deref().unwrap_or(Path::new(".")).join(&self.program);
            return Some(file).filter(|file| file.exists()).map(|_| self.program.clone().into());
        }
        let set = self.env.iter().rev().find(|(name, _)| name == "PATH");
        let path = set.map(|(_, path)| path.into()).or_else(|| std::env::var_os("PATH"))?;
        std::env::split_paths(&path)
            .map(|dir| self.cwd.as_deref().unwrap_or(Path::new("")).join(dir).join(&self.program))
            .find(|file| is_program(file))
    }

    fn not_started(&self, error: &std::io::Error) -> Fault {
        let path = std::env::var("PATH").unwrap_or_default();
        let program = &self.program;
        let message = if error.kind() != std::io::ErrorKind::NotFound {
            format!("cannot start the upstream command '{program}': {error}")
        } else if self.cwd.as_ref().is_some_and(|dir| !dir.is_dir()) {
            let dir = self.cwd.clone().unwrap_or_default();
            format!("cannot start '{program}': no directory {}", dir.display())
        } else if program.contains('/') {
            format!("the upstream command '{program}' does not exist")
        } else {
            format!("the upstream command '{program}' was not found on the PATH {path}")
        };
        Fault::new(FaultKind::Spawn, message)
    }
}

/// Turns this process into another program, which the kernel ends when the proxy `parent` ends.
/// Comes back only with what went wrong.
pub(crate) fn turn_into(
    parent: &OsStr,
    program: &OsStr,
    args: impl Iterator<Item = OsString>,
) -> std::io::Error {
    #[cfg(target_os = "linux")]
    {
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        // It may have ended before the kernel was asked.
        let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().to_string());
        if now.as_deref().map(OsStr::new) != Some(parent) {
            return std::io::Error::other("the proxy has ended");
        }
    }
    std::process::Command::new(program).args(args).exec()
}

/// Reads stderr to its end, so that the process never blocks on it.
async fn keep_tail(mut stderr: tokio::process::ChildStderr, tail: Tail) {
    let mut buffer = [0; 4096];
    while let Ok(n) = stderr.read(&mut buffer).await {
        if n == 0 {
            return;
        }
        let mut tail = lock(&tail);
        tail.extend_from_slice(&buffer[..n]);
        let excess = tail.len().saturating_sub(STDERR_TAIL);
        tail.drain(..excess);
    }
}

/// The last line of stderr that says something, fit for a message.
pub(crate) fn last_words(tail: &Tail) -> Option<String> {
    let tail = lock(tail);
    let text = String::from_utf8_lossy(&tail).into_owned();
    let line = text.lines().rev().find(|line| !line.trim().is_empty())?;
    let end = line.floor_char_boundary(300);
    Some(mws_cli::sanitize(&line[..end]).into_owned())
}

/// A process group that is killed when this is dropped, with all that the process started.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Watches over the process until it ends, or until `stop` is told or dropped: then its stdin is
/// closed by `hang_up`, and SIGTERM and SIGKILL follow for the whole group.
pub(crate) async fn supervise(
    mut child: Child,
    stop: oneshot::Receiver<Duration>,
    hang_up: impl Fn(),
) {
    let group = Group::of(&child);
    let patience = tokio::select! {
        _ = child.wait() => {
            // What it wrote last is still in the pipe; what it started may keep the pipe open.
            tokio::time::sleep(LAST_WORDS).await;
            hang_up();
            return;
        }
        told = stop => told.unwrap_or(crate::setup::PATIENCE),
    };
    hang_up();
    if tokio::time::timeout(patience, child.wait()).await.is_err() {
        group.signal(Signal::TERM);
        let _ = tokio::time::timeout(patience, child.wait()).await;
    }
    group.signal(Signal::KILL);
    let _ = child.wait().await;
}
