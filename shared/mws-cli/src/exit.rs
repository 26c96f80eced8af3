//! Exit codes, and failures with a hint.
//!
//! Invariant: all codes are assigned here: 0 done, 1 failed, 2 usage or configuration, 3 a change
//! is pending.
//! Deliberately absent: backtraces. A message names what was attempted, on what, and what to do.

use std::fmt;
use std::process::ExitCode;

use crate::output::{closed_pipe, say};

/// How a program ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done,
    /// Asked with `--exit-code`: a change is pending.
    Pending,
    /// Finished, but the verdict is bad; already said.
    Bad,
}

/// Why a program failed.
#[derive(Debug)]
pub struct Failure {
    usage: bool,
    quiet: bool,
    message: String,
    hint: Option<String>,
}

impl Failure {
    /// The work failed: exit 1.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self { usage: false, quiet: false, message: message.to_string(), hint: None }
    }

    /// The command line or the configuration is wrong: exit 2.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self { usage: true, ..Self::failed(message) }
    }

    /// Adds what to do about it, shown on a line of its own.
    #[must_use]
    pub fn hint(self, hint: impl fmt::Display) -> Self {
        Self { hint: Some(hint.to_string()), ..self }
    }

    /// The message without the hint.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// An I/O error on stdout or elsewhere; a closed pipe is no failure.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self { quiet: closed_pipe(&error), ..Self::failed(error) }
    }
}

/// Turns the result of a program into its exit code, saying on stderr why it failed.
pub fn main(program: &str, result: Result<Exit, Failure>) -> ExitCode {
    match result {
        Ok(Exit::Done) => ExitCode::SUCCESS,
        Ok(Exit::Pending) => ExitCode::from(3),
        Ok(Exit::Bad) => ExitCode::FAILURE,
        Err(failure) if failure.quiet => ExitCode::SUCCESS,
        Err(failure) => {
            let safe = |line| crate::sanitize(line).into_owned();
            let message: Vec<_> = failure.message.lines().map(safe).collect();
            say(&format!("{program}: {}", message.join("\n")));
            if let Some(hint) = &failure.hint {
                say(&format!("  hint: {}", safe(hint)));
            }
            ExitCode::from(if failure.usage { 2 } else { 1 })
        }
    }
}
