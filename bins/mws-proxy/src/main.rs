//! Entry point of `mws-proxy`; see the library.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    if let Some(failed) = mws_proxy::turned() {
        return mws_cli::main("mws-proxy", Err(failed));
    }
    mws_cli::main("mws-proxy", mws_proxy::run(mws_proxy::Cli::parse()))
}
