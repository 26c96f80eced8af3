//! Entry point of `mws-ingest`; see the library.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    mws_cli::main("mws-ingest", mws_ingest::run(&mws_ingest::Cli::parse()))
}
