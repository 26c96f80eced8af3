//! Folds the event log into `working-set.json`.
//!
//! Reads the log or operands, the catalog, and the front matter of `pinFiles`. Writes
//! `working-set.json` and, only when that changed, one `working_set_published` event. Removes what
//! is too old from the log.
//! Invariant: what is decided is a function of that input and `--as-of`; the clock gives only the
//! default of `--as-of` and the time of the event.
//! Deliberately absent: the rules themselves, which are pure and live in `mws-policy`.

mod cli;
mod definitions;
mod explain;
mod front_matter;
#[cfg(fuzzing)]
pub mod fuzz;
mod grid;
mod output;
mod pin_files;
mod publish;
mod replay;
mod replay_text;
mod retention;
#[cfg(test)]
mod retention_tests;
mod table;
#[cfg(test)]
mod tests;

use std::path::Path;

use mws_catalog::{Catalog, ListingOptions};
use mws_cli::{Exit, Failure, Source, each_event};
use mws_config::{Config, Places, Rule, Thresholds};
use mws_event::Timestamp;
use mws_policy::{
    BYTES_PER_TOKEN, History, Log, Merged, Offer, Offers, WorkingSet, check_thresholds, decide,
    merge,
};
use mws_state::{Damage, ReadError, StateDir, read_file};

pub use cli::Cli;
use output::Outcome;

const CATALOG_MAX: u64 = 256 * 1024 * 1024;

/// Decides and, unless told otherwise, publishes.
///
/// # Errors
/// Exit 2 for flags or input that cannot be used, exit 1 when there is no event or the result
/// cannot be written.
pub fn run(cli: &Cli) -> Result<Exit, Failure> {
    let (config, state) = cli.common.load()?;
    let thresholds = cli.thresholds(&config.promote);
    check_thresholds(&thresholds)
        .map_err(|e| Failure::usage(e).hint("a tool must be kept at least as long as it counts"))?;
    let keep = kept_days(cli, &config, &thresholds)?;
    let as_of = cli.as_of()?;
    cli.check_output()?;
    let policies = grid::policies(&cli.grid, &thresholds)?;
    let lock = if cli.publishes() { Some(publish::lock(&state)?) } else { None };
    let mut log = log(cli, &state)?;
    let offers = catalog(cli.catalog.as_deref(), &state)?.map(|c| offers(&c, &config));
    check_prices(&policies, offers.is_some())?;
    definitions::accept(&cli.accept, &mut log, offers.as_ref(), &state)?;
    let pins = pin_files::pins(&config, &Places::from_env());
    let merged = merge(&log, as_of, config.session_gap_minutes);
    say_ignored(&merged, as_of);
    let price = log.search_tokens(as_of);
    let history = History::of(&merged.calls, &pins, offers.as_ref(), price, as_of);
    let on_change = config.on_change;
    let exit = if cli.replay {
        let replay = mws_policy::Replay::of(&history, log.definitions(), on_change);
        replay::run(cli, &replay, &thresholds, &policies, as_of)
    } else {
        let decisions = decide(&history, log.definitions(), on_change, &thresholds);
        if let Some(tool) = &cli.explain {
            let known = explain::Known { history: &history, decisions: &decisions };
            return explain::run(cli, tool, &known, log.definitions(), &thresholds);
        }
        definitions::say_changes(&decisions, log.definitions(), on_change);
        let set = WorkingSet::new(&decisions, &thresholds, merged.through);
        if cli.publishes() {
            definitions::note(&decisions, log.definitions(), on_change, &state)?;
        }
        let exit = output::write(cli, &state, &Outcome { decisions, set, thresholds, as_of });
        if exit.is_ok() && cli.publishes() && cli.files.is_empty() {
            let (state, config, thresholds) = (&state, &config, &thresholds);
            let (pins, offers, definitions) = (&pins, offers.as_ref(), log.definitions());
            let history = &history;
            retention::cut(
                &retention::Decided {
                    state,
                    config,
                    thresholds,
                    pins,
                    offers,
                    history,
                    definitions,
                },
                keep,
            );
        }
        exit
    };
    drop(lock);
    exit
}

/// How many days the log is kept; the configuration must fit together even where a flag overrides
/// part of it, and with the flags where they take effect.
fn kept_days(cli: &Cli, config: &Config, thresholds: &Thresholds) -> Result<u32, Failure> {
    let unfit = |e| Failure::usage(e).hint("the log must hold what the thresholds look back on");
    let days = config.retention.days(&config.promote).map_err(unfit)?;
    if cli.publishes() { config.retention.days(thresholds).map_err(unfit) } else { Ok(days) }
}

/// What needs prices cannot do without a catalog.
fn check_prices(policies: &[Thresholds], has_catalog: bool) -> Result<(), Failure> {
    if has_catalog {
        return Ok(());
    }
    if policies.iter().any(|policy| policy.rule == Rule::Value) {
        return Err(Failure::usage("the policy 'value' needs the catalog: no price is known")
            .hint("name one with --catalog, or let mws-proxy --check fetch it"));
    }
    if policies.iter().any(|policy| policy.max_tokens.is_some()) {
        tracing::warn!("No catalog, so no tool's tokens are known; maxTokens cuts nothing.");
    }
    Ok(())
}

/// What each tool costs as the proxy lists it.
fn offers(catalog: &Catalog, config: &Config) -> Offers {
    let options = ListingOptions { slim: config.slim_schemas, always_load: config.client_hints };
    let offer = |tool: &mws_catalog::Tool| {
        let tokens = (tool.listed(&options).len() as u64).div_ceil(BYTES_PER_TOKEN);
        (tool.name().to_owned(), Offer { tokens, hash: format!("{:016x}", tool.hash()) })
    };
    catalog.tools().iter().map(offer).collect()
}

fn log(cli: &Cli, state: &StateDir) -> Result<Log, Failure> {
    let mut log = Log::default();
    let damage = each_event(&Source::from_operands(&cli.files), state, |event| log.push(&event))?;
    let Damage { bad_lines, newer, unreadable } = damage;
    if bad_lines + newer + unreadable > 0 {
        tracing::warn!(
            "Skipped {bad_lines} damaged lines, {newer} lines of a later version and \
             {unreadable} unreadable files."
        );
    }
    if log.events() == 0 {
        let place = match cli.files.is_empty() {
            true => format!("the log in {}", state.events_dir().display()),
            false => "the input".to_owned(),
        };
        return Err(Failure::failed(format!("nothing to decide: no event in {place}"))
            .hint("make calls through mws-proxy, or read transcripts with mws-ingest, first"));
    }
    Ok(log)
}

/// The catalog named by the flag, else the last one the proxy saw, if there is one.
fn catalog(flag: Option<&Path>, state: &StateDir) -> Result<Option<Catalog>, Failure> {
    let path = flag.map_or_else(|| state.catalog(), Path::to_owned);
    let read = match flag {
        // A file that somebody names may be a link.
        Some(_) => path.canonicalize().map_err(ReadError::from),
        None => Ok(path.clone()),
    };
    let parsed = match read.and_then(|real| read_file(&real, CATALOG_MAX)) {
        Ok((bytes, _)) => Catalog::parse(&bytes).map_err(|e| e.to_string()),
        Err(e) => Err(e.to_string()),
    };
    match parsed {
        Ok((catalog, rejected)) => {
            if let Some(first) = rejected.first() {
                let (n, path, index) = (rejected.len(), path.display(), first.index);
                tracing::warn!("{path}: {n} tools left out; number {index}: {}.", first.reason);
            }
            Ok(Some(catalog))
        }
        Err(e) if flag.is_some() => {
            Err(Failure::usage(format!("cannot use the catalog {}: {e}", path.display())))
        }
        Err(e) => {
            tracing::warn!(
                "No catalog ({}: {e}); not checked whether the upstream still lists the tools.",
                path.display()
            );
            Ok(None)
        }
    }
}

fn say_ignored(merged: &Merged<'_>, as_of: Timestamp) {
    let Merged { late, future, .. } = merged;
    if *late > 0 {
        tracing::info!("Ignored {late} lines of calls at or after {as_of}.");
    }
    if *future > 0 {
        tracing::warn!("Ignored {future} lines of calls more than 24 h after {as_of}.");
    }
}
