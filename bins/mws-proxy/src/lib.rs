//! `mws-proxy`: forwards MCP between clients and one upstream server, and records each call.
//!
//! Reads the configuration, `working-set.json`, the search snapshot and `catalog.json`; writes
//! `catalog.json`, `upstream.json` and the event log.
//! Invariant: bytes in the middle, types at the edges. What is only forwarded is never modelled, and
//! a request is never put at risk to record it.
//! Deliberately absent: deciding what is promoted, and everything else that another program does.

mod accepted;
mod advice;
mod asked;
mod batch;
mod body;
mod bridge;
mod call;
mod caller;
mod can;
mod catalog;
mod check;
mod cli;
mod coerce;
mod control;
mod crossing;
mod current;
mod edit;
mod events;
mod fault;
mod finder;
mod forward;
#[cfg(fuzzing)]
pub mod fuzz;
mod guard;
mod guide;
mod handshake;
mod headers;
mod http;
mod line;
mod listen;
mod listing;
mod lock;
mod memory;
mod meta;
mod notify;
mod pipe;
mod proxy;
mod ranks;
mod reload;
mod reply;
mod rpc;
mod serve;
mod session_bridge;
mod sessions;
mod setup;
mod severity;
mod sse;
mod stateless;
mod streams;
mod tail;
mod timer;
mod upstream;
mod working_set;

pub use cli::Cli;

use mws_cli::{Exit, Failure};

/// The proxy starts its upstream through its own program, which turns into it, tied to the proxy's
/// life. `None` when this process is the proxy itself, else what went wrong.
pub fn turned() -> Option<Failure> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != upstream::BECOME {
        return None;
    }
    let (parent, program) = (args.next()?, args.next()?);
    let failed = upstream::turn_into(&parent, &program, args);
    Some(Failure::failed(format!("cannot start {}: {failed}", program.display())))
}

/// Runs the proxy until it is told to stop, or the check.
///
/// # Errors
/// A configuration that cannot be used (exit 2), a port in use or a failed check (exit 1).
pub fn run(cli: Cli) -> Result<Exit, Failure> {
    let (config, state) = setup::configure(&cli)?;
    // The words of a defect may hold what was being worked on.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!("A defect of the proxy at {place}.");
    }));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::failed(format!("cannot start the runtime: {e}")))?;
    let ended = if cli.check {
        runtime.block_on(check::check(&config, &state))
    } else if cli.stdio {
        runtime.block_on(setup::serve_stdio(cli, &config, &state))
    } else {
        runtime.block_on(setup::serve(cli, &config, &state))
    };
    // A publish under way ends; nothing else may hold the program up.
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    ended
}
