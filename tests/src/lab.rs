//! A lab: one temporary home in which the programs of this workspace run.
//!
//! Invariant: a program sees no file and no variable of the person who runs the tests, except `PATH`.
//! Deliberately absent: fixed ports (every proxy takes a free one) and killing by name.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A temporary home, with configuration and state in their default places.
pub struct Lab {
    dir: TempDir,
    given: AtomicUsize,
}

/// A finished program.
#[derive(Debug)]
pub struct Done {
    /// Exit code; -1 after a signal.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it said.
    pub stderr: String,
}

/// A running proxy, killed when it is dropped.
pub struct Proxy {
    /// Endpoint.
    pub url: String,
    child: Child,
    said: Arc<Mutex<Vec<u8>>>,
}

/// Path of a program of this workspace.
///
/// `MWS_BIN_DIR` names the folder; without it the programs are built once per process, because
/// `cargo test` does not build the programs of other packages.
#[must_use]
pub fn bin(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder =
        FOLDER.get_or_init(|| std::env::var_os("MWS_BIN_DIR").map_or_else(build, PathBuf::from));
    let path = folder.join(name);
    assert!(path.is_file(), "no program at {}", path.display());
    path
}

fn build() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().and_then(Path::parent).unwrap().to_owned();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--workspace", "--bins"]).current_dir(workspace());
    if folder.ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success(), "cannot build the programs");
    folder
}

/// Root of the workspace.
#[must_use]
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A loopback port that was free a moment ago.
#[must_use]
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits until `holds` is true, for at most `limit`.
pub fn eventually(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    holds()
}

impl Default for Lab {
    fn default() -> Self {
        Self::new()
    }
}

impl Lab {
    /// An empty home.
    #[must_use]
    pub fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("mws-lab-").tempdir().unwrap();
        let lab = Self { dir, given: AtomicUsize::new(0) };
        std::fs::create_dir_all(lab.path("tmp")).unwrap();
        lab
    }

    /// A home whose configuration names this upstream URL.
    #[must_use]
    pub fn facing(url: &str) -> Self {
        Self::with_config(&serde_json::json!({"upstream": {"url": url}}))
    }

    /// A home with this configuration.
    #[must_use]
    pub fn with_config(config: &Value) -> Self {
        let lab = Self::new();
        lab.write(CONFIG, &config.to_string());
        lab
    }

    /// A path below the home.
    #[must_use]
    pub fn path(&self, relative: &str) -> PathBuf {
        self.dir.path().join(relative)
    }

    /// A path below the state directory.
    #[must_use]
    pub fn state(&self, relative: &str) -> PathBuf {
        self.path(".local/state/mcp-working-set").join(relative)
    }

    /// A number that this home gave to nobody before.
    #[must_use]
    pub fn fresh(&self) -> usize {
        self.given.fetch_add(1, Ordering::Relaxed)
    }

    /// Writes a file below the home, replacing it by rename.
    pub fn write(&self, relative: &str, text: &str) -> PathBuf {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let temporary = path.with_extension("new");
        std::fs::write(&temporary, text).unwrap();
        std::fs::rename(&temporary, &path).unwrap();
        path
    }

    /// Writes a file below the state directory, replacing it by rename.
    pub fn write_state(&self, relative: &str, text: &str) {
        self.write(&format!(".local/state/mcp-working-set/{relative}"), text);
    }

    /// A command with the environment of this home alone.
    #[must_use]
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.dir.path()).stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LANG", "C.UTF-8");
        for (name, folder) in [
            ("HOME", ""),
            ("XDG_CONFIG_HOME", ".config"),
            ("XDG_STATE_HOME", ".local/state"),
            ("XDG_DATA_HOME", ".local/share"),
            ("XDG_CACHE_HOME", ".cache"),
            ("TMPDIR", "tmp"),
        ] {
            command.env(name, self.path(folder));
        }
        command
    }

    /// Runs a program of this workspace to its end.
    pub fn run(&self, name: &str, args: &[&str]) -> Done {
        self.feed(name, args, "")
    }

    /// Runs a program of this workspace with this text on its standard input.
    pub fn feed(&self, name: &str, args: &[&str], input: &str) -> Done {
        let mut command = self.command(bin(name));
        finish(command.args(args), input)
    }

    /// Runs a shell line in which the programs of this workspace are on the `PATH`.
    pub fn shell(&self, line: &str) -> Done {
        let folder = bin("mws").parent().unwrap().to_owned();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = self.command("bash");
        command.env("PATH", format!("{}:{path}", folder.display()));
        finish(command.args(["-o", "pipefail", "-c", line]), "")
    }

    /// Starts a proxy on a free port and waits until it listens.
    #[must_use]
    pub fn proxy(&self, args: &[&str]) -> Proxy {
        let mut command = self.command(bin("mws-proxy"));
        command.args(["--listen", "127.0.0.1:0"]).args(args);
        Proxy::start(command)
    }

    /// The lines of the event log, parsed.
    #[must_use]
    pub fn events(&self) -> Vec<Value> {
        let Ok(folder) = std::fs::read_dir(self.state("events")) else { return Vec::new() };
        let mut files: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        files.sort();
        let text: String =
            files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The recorded calls of one tool.
    #[must_use]
    pub fn calls(&self, tool: &str) -> Vec<Value> {
        let events = self.events().into_iter();
        events.filter(|line| line.get("event").is_none() && line["tool"] == tool).collect()
    }
}

/// Where the configuration is, below a home.
pub const CONFIG: &str = ".config/mcp-working-set/config.json";

impl Done {
    /// Asserts that it ended with exit code 0.
    #[must_use]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }
}

/// Runs a command with this input; fails if it takes over a minute.
pub fn finish(command: &mut Command, input: &str) -> Done {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // A program that does not read its input closes it, which is no failure of the test.
    std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let stdout = collect(child.stdout.take().unwrap());
    let stderr = collect(child.stderr.take().unwrap());
    let mut status = None;
    if !eventually(Duration::from_secs(60), || {
        status = child.try_wait().unwrap();
        status.is_some()
    }) {
        let _ = child.kill();
        panic!("still running after a minute: {command:?}");
    }
    let code = status.and_then(|status| status.code()).unwrap_or(-1);
    Done { code, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

fn collect(mut pipe: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl Proxy {
    /// Starts a proxy by this command and waits for the line that names its endpoint.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        let spawned = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = spawned.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let said = Arc::new(Mutex::new(Vec::new()));
        let mut stderr = child.stderr.take().unwrap();
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = stderr.read(&mut piece) {
                heard.lock().unwrap().extend_from_slice(&piece[..count]);
            }
        });
        let (sender, receiver) = std::sync::mpsc::channel();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = stdout.read_line(&mut line);
            let _ = sender.send(line);
            let _ = std::io::copy(&mut stdout, &mut std::io::sink());
        });
        let mut proxy = Self { url: String::new(), child, said };
        let line = receiver.recv_timeout(Duration::from_secs(10)).unwrap_or_default();
        let parsed: Value = serde_json::from_str(&line).unwrap_or_default();
        let url = parsed["listening"].as_str();
        url.unwrap_or_else(|| panic!("the proxy printed {line:?} and said: {}", proxy.stderr()))
            .clone_into(&mut proxy.url);
        proxy
    }

    /// What it said so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().unwrap()).into_owned()
    }

    /// Host and port.
    #[must_use]
    pub fn address(&self) -> &str {
        self.url.trim_start_matches("http://").trim_end_matches("/mcp")
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal)
            .unwrap();
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A line of `/proc/PID/status` in KiB: `VmRSS` now, `VmHWM` at the most.
    #[must_use]
    pub fn memory(&self, line: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix(line)).unwrap();
        line.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap()
    }

    /// File descriptors that it has open.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// Asks it to end, waits up to 12 seconds and returns its exit code.
    pub fn stop(&mut self) -> i32 {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let mut status = None;
        let ended = eventually(Duration::from_secs(12), || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert!(ended, "the proxy did not end after SIGTERM; it said: {}", self.stderr());
        status.and_then(|status| status.code()).unwrap_or(-1)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
