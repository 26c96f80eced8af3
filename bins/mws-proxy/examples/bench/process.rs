//! The processes of a run, and what the kernel says of them.
//!
//! Invariant: a process ends with its handle; times are on-CPU times of all its threads.
//! Deliberately absent: hardware counters, which virtual machines lack.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Fallible;

/// A process that is killed when dropped.
pub(crate) struct Process {
    child: Child,
    /// Where it listens.
    pub(crate) address: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts this program as a stub or a splice.
    pub(crate) fn own(args: &[&str]) -> Fallible<Self> {
        let address = free_address()?;
        let mut command = Command::new(std::env::current_exe()?);
        let child = command.arg(args[0]).arg(&address).args(&args[1..]).spawn()?;
        let process = Self { child, address };
        process.wait_for_port(Duration::from_secs(10))?;
        Ok(process)
    }

    /// Starts the proxy and waits for its first line.
    pub(crate) fn proxy(program: &str, state: &Path, config: &str) -> Fallible<Self> {
        fs::create_dir_all(state)?;
        let file = state.with_extension("json");
        fs::write(&file, config)?;
        let mut command = Command::new(program);
        command.arg("--listen").arg("127.0.0.1:0").arg("--config").arg(&file);
        command.arg("--state-dir").arg(state).arg("-q").stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().ok_or("no pipe")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.split("//").nth(1).and_then(|rest| rest.split('/').next());
        let address = address.ok_or("the proxy did not start")?.to_owned();
        Ok(Self { child, address })
    }

    /// Starts another program that listens on `{address}`, which its command line names.
    pub(crate) fn other(line: &str) -> Fallible<Self> {
        let address = free_address()?;
        let port = address.rsplit(':').next().unwrap_or_default();
        let line = line.replace("{port}", port);
        let mut words = line.split_whitespace();
        let mut command = Command::new(words.next().ok_or("an empty command")?);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Self { child: command.spawn()?, address };
        process.wait_for_port(Duration::from_secs(60))?;
        Ok(process)
    }

    fn wait_for_port(&self, limit: Duration) -> Fallible<()> {
        let started = Instant::now();
        while TcpStream::connect(&self.address).is_err() {
            if started.elapsed() > limit {
                return Err(format!("nothing listens on {}", self.address).into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Time on the CPU so far, of all threads, in µs.
    pub(crate) fn cpu(&self) -> Fallible<f64> {
        let mut sum = 0.0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            // A thread may end in between.
            let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            sum += text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0.0);
        }
        Ok(sum / 1e3)
    }

    /// Resident memory, in MiB.
    pub(crate) fn resident(&self) -> Fallible<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kb = line.and_then(|line| line.split_whitespace().next()).ok_or("no VmRSS")?;
        Ok(kb.parse::<f64>()? / 1024.0)
    }
}

fn free_address() -> Fallible<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}
