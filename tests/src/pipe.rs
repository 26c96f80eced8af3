//! A tap on a program that speaks lines: what it prints is shown byte for byte.
//!
//! Invariant: the program is ended when the tap is dropped.
//! Deliberately absent: matching answers to questions by id; a caller asks one thing at a time.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A running program.
pub struct Pipe {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Pipe {
    /// Starts it; what it says on its standard error is dropped.
    #[must_use]
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (sender, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { stdin: child.stdin.take().unwrap(), child, lines }
    }

    /// Sends one line.
    pub fn send(&mut self, line: &str) {
        self.send_piece(&format!("{line}\n"));
    }

    /// Sends a part of a line.
    pub fn send_piece(&mut self, piece: &str) {
        self.stdin.write_all(piece.as_bytes()).unwrap();
        self.stdin.flush().unwrap();
    }

    /// Sends one request and returns the first line that carries its id (`"id":ID`).
    pub fn ask(&mut self, id: &str, line: &str) -> String {
        self.send(line);
        self.next_with(&format!("\"id\":{id}"))
    }

    /// The next line that has `mark` in it.
    pub fn next_with(&mut self, mark: &str) -> String {
        loop {
            let line = self.next_line().unwrap_or_else(|| panic!("no line with {mark}"));
            if line.contains(mark) {
                return line;
            }
        }
    }

    /// The next line, if one comes within 20 seconds.
    pub fn next_line(&mut self) -> Option<String> {
        self.lines.recv_timeout(Duration::from_secs(20)).ok()
    }
}

impl Pipe {
    /// Waits for a line that holds this text.
    pub fn hears(&mut self, text: &str, limit: Duration) -> bool {
        let until = std::time::Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(std::time::Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.contains(text) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
