//! Entry point of `mws-index`; see the library.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    mws_cli::main("mws-index", mws_index::run(&mws_index::Cli::parse()))
}
