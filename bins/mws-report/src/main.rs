//! Entry point of `mws-report`; see the library.

use clap::Parser;

fn main() -> std::process::ExitCode {
    mws_cli::main("mws-report", mws_report::run(&mws_report::Cli::parse()))
}
