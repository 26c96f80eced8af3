//! Entry point of `mws`; see the library.

use clap::Parser;

fn main() -> std::process::ExitCode {
    mws_cli::main("mws", mws::run(&mws::Cli::parse()))
}
