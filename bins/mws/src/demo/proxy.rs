//! The proxy as a child process of the demo.
//!
//! Invariant: the child is asked to stop, by its process id, however the demo ends: by itself, by
//! an error, by Ctrl-C, SIGTERM or a closed terminal.
//! Deliberately absent: restarting it.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

const START: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(50);

/// A proxy that listens.
pub(crate) struct Proxy {
    child: Arc<Mutex<Child>>,
    /// Where it listens.
    pub(crate) url: String,
}

impl Proxy {
    /// Starts `command` and waits until it says where it listens.
    ///
    /// # Errors
    /// When it cannot be started, or ends or stays silent before it listens.
    pub(crate) fn start(mut command: Command) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot run {}: {e}", command.get_program().display()))?;
        let stdout = child.stdout.take();
        let mut proxy = Self { child: Arc::new(Mutex::new(child)), url: String::new() };
        let child = Arc::clone(&proxy.child);
        on_interrupt(move || stop(&child)).map_err(|e| format!("cannot catch signals: {e}"))?;
        let (sender, receiver) = sync_channel(1);
        thread::spawn(move || {
            let mut lines = stdout.into_iter().flat_map(|out| BufReader::new(out).lines());
            let _ = sender.send(lines.next());
            // Read on, so that the proxy never waits for a reader.
            lines.for_each(drop);
        });
        let line = match receiver.recv_timeout(START) {
            Ok(Some(Ok(line))) => line,
            Ok(_) => return Err("the proxy ended before it listened".into()),
            Err(_) => return Err(format!("the proxy said nothing for {} s", START.as_secs())),
        };
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        proxy.url = said["listening"]
            .as_str()
            .ok_or_else(|| format!("the proxy said '{line}' instead of where it listens"))?
            .to_owned();
        Ok(proxy)
    }

    /// Waits until the proxy ends, which it does when the user interrupts the demo.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub(crate) fn wait(&self) -> io::Result<()> {
        while lock(&self.child).try_wait()?.is_none() {
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        stop(&self.child);
        let asked = Instant::now();
        while let Ok(None) = { lock(&self.child).try_wait() } {
            if asked.elapsed() > STOP {
                // It does not react; what is left of it must not outlive the demo.
                let _ = lock(&self.child).kill();
                let _ = lock(&self.child).wait();
            }
            thread::sleep(POLL);
        }
    }
}

/// Asks the child to stop, unless it has ended: its id may be another's then.
fn stop(child: &Mutex<Child>) {
    let mut child = lock(child);
    if let Ok(None) = child.try_wait()
        && let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
    {
        let _ = kill_process(pid, Signal::TERM);
    }
}

fn lock(child: &Mutex<Child>) -> MutexGuard<'_, Child> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `act` at the first SIGINT, SIGTERM or SIGHUP instead of dying of it.
fn on_interrupt(act: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate, mut hangup) = {
        let _guard = runtime.enter();
        let kinds = (SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup());
        (signal(kinds.0)?, signal(kinds.1)?, signal(kinds.2)?)
    };
    thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        });
        act();
    });
    Ok(())
}
