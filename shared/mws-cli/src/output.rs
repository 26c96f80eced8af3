//! Writing to stdout and stderr.
//!
//! Invariant: all data goes through one locked buffer; a closed pipe is an error that
//! [`crate::main`] turns into exit 0, never a panic.
//! Deliberately absent: `println!`, which panics on a closed pipe.

use std::fmt;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

/// Buffered, locked stdout.
#[derive(Debug)]
pub struct Output {
    out: BufWriter<StdoutLock<'static>>,
    line_buffered: bool,
}

impl Output {
    /// Takes stdout; each line is flushed at once on a terminal.
    pub fn stdout() -> Self {
        let out = io::stdout();
        let line_buffered = out.is_terminal();
        Self { out: BufWriter::with_capacity(64 * 1024, out.lock()), line_buffered }
    }

    /// Flushes after each line from now on, for readers that follow.
    #[must_use]
    pub fn line_buffered(self) -> Self {
        Self { line_buffered: true, ..self }
    }

    /// Writes one line.
    ///
    /// # Errors
    /// When stdout is closed or full.
    pub fn line(&mut self, text: impl fmt::Display) -> io::Result<()> {
        writeln!(self.out, "{text}")?;
        if self.line_buffered { self.out.flush() } else { Ok(()) }
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// When stdout is closed or full.
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        if self.line_buffered { self.out.flush() } else { Ok(()) }
    }

    /// Writes out what is buffered. Must be called last; an error at drop would be lost.
    ///
    /// # Errors
    /// When stdout is closed or full.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// True for the error of writing into a pipe whose reader is gone.
pub fn closed_pipe(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// A line on stderr; a closed stderr is nobody's problem.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
