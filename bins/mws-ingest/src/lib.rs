//! `mws-ingest`: client transcripts in, tool calls out.
//!
//! Reads transcripts below the configured roots, `catalog.json` and its own state; writes to the
//! event log first and to its state after. Invariant: killed at any point, the next run loses
//! nothing, and what it repeats has the ids it had. Unchanged files are not opened, and when
//! nothing changed nothing is written.
//! Deliberately absent: joining with the proxy's own log, which is the reader's of the log to do.

mod calls;
mod claude_code;
mod cli;
mod codec;
mod codex;
mod emit;
mod engine;
mod follow;
mod foreign;
#[cfg(fuzzing)]
pub mod fuzz;
mod gemini_cli;
mod hashed;
mod hits;
mod known;
mod lenient;
mod names;
mod owner;
mod progress;
mod qwen_code;
mod read;
mod records;
mod roots;
mod run;
mod salvage;
mod scan;
mod sighting;
mod sources;
mod state;
mod stats;
#[cfg(test)]
mod tests;
mod walk;
mod watch;

pub use cli::Cli;
pub use run::run;
