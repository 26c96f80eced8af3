//! The proxy against a direct connection and a TCP splice, in turns on one core:
//! `bench run PROXY [--plain PROXY] [--peer COMMAND] [--short] [--gate] --folder DIR`.
//!
//! Invariant: every process of a run is a child of it and ends with it.
//! Deliberately absent: pinning; `scripts/bench-proxy` starts it on one core.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    clippy::disallowed_methods,
    missing_docs
)]

mod catalog;
mod client;
mod load;
mod process;
mod report;
mod rows;
mod stub;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use load::Effort;

type Fallible<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match start(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("bench: a row is past its limit");
            ExitCode::FAILURE
        }
        Err(e) => {
            eprintln!("bench: {e}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: &[String]) -> Fallible<bool> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match words.as_slice() {
        ["stub", address, tools, rest @ ..] => {
            runtime.block_on(stub::serve(address, tools.parse()?, rest == ["sse"]))?;
        }
        ["pipe", tools] => stub::serve_pipe(tools.parse()?)?,
        ["splice", address, to] => runtime.block_on(stub::splice(address, to))?,
        ["run", proxy, options @ ..] => return run(proxy, options),
        _ => return Err("expected: run PROXY --folder DIR [options]".into()),
    }
    Ok(true)
}

fn run(proxy: &str, options: &[&str]) -> Fallible<bool> {
    let value = |name: &str| {
        let at = options.iter().position(|option| *option == name)?;
        options.get(at + 1).map(|value| (*value).to_owned())
    };
    let short = options.contains(&"--short");
    let folder = value("--folder").ok_or("--folder is missing")?;
    let bench = rows::Bench {
        proxy: proxy.to_owned(),
        plain: value("--plain"),
        peer: value("--peer"),
        folder: rows::fresh(Path::new(&folder))?,
        effort: Effort {
            rounds: if short { 5 } else { 11 },
            turn: Duration::from_millis(if short { 250 } else { 600 }),
        },
        idle: Duration::from_secs(if short { 10 } else { 60 }),
    };
    let mut report = report::Report::default();
    bench.run(&mut report)?;
    let passes = report.finish();
    Ok(passes || !options.contains(&"--gate"))
}
