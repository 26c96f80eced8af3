//! `mws-proxy --check`: connect, list, write `catalog.json`, and say so in one line.
//!
//! Invariant: exit 0 exactly when the upstream gave its tool list.
//! Deliberately absent: listening.

use std::time::{Duration, Instant};

use mws_cli::{Exit, Failure, Output};
use mws_config::Config;
use mws_state::StateDir;

use crate::rpc::Era;
use crate::setup;

const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the check.
pub(crate) async fn check(config: &Config, state: &StateDir) -> Result<Exit, Failure> {
    state.create().map_err(|e| Failure::failed(format!("cannot use the state directory: {e}")))?;
    let proxy = setup::build(config, state, None)?;
    let started = Instant::now();
    let checked = async {
        let shaken = proxy.upstream.handshake(Era::Modern).await?;
        proxy.shelf.refresh(Era::Modern, PATIENCE).await?;
        Ok::<_, crate::fault::Fault>(shaken)
    };
    let checked = checked.await;
    proxy.upstream.stop(setup::PATIENCE).await;
    let ms = started.elapsed().as_millis();
    let (line, exit) = match checked {
        Ok(shaken) => {
            let tools = proxy.shelf.last().map_or(0, |tools| tools.catalog.len());
            let line = serde_json::json!({
                "ok": true, "protocol": shaken.version, "tools": tools, "ms": ms as u64,
            });
            (line, Exit::Done)
        }
        Err(fault) => {
            let line = serde_json::json!({ "ok": false, "error": fault.message, "ms": ms as u64 });
            (line, Exit::Bad)
        }
    };
    let mut out = Output::stdout();
    out.line(line)?;
    out.finish()?;
    Ok(exit)
}
