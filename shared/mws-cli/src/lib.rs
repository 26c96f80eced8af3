//! What every program shares on the command line: common flags, exit codes, output, logging.
//!
//! Invariant: stdout is data, stderr is talk, the exit code is the verdict; a closed pipe ends a
//! program quietly with 0.
//! Deliberately absent: progress bars, pagers and prompts.

mod color;
mod common;
mod exit;
mod input;
mod output;
mod sanitize;

pub use color::{Style, paint};
pub use common::{ColorWhen, Common};
pub use exit::{Exit, Failure, main};
pub use input::{Source, each_event, read_input};
pub use output::{Output, closed_pipe};
pub use sanitize::sanitize;
