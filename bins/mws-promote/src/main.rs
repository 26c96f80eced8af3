//! Entry point of `mws-promote`; see the library.

use clap::Parser;

fn main() -> std::process::ExitCode {
    mws_cli::main("mws-promote", mws_promote::run(&mws_promote::Cli::parse()))
}
