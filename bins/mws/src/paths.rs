//! `mws paths`: where everything is.
//!
//! Invariant: prints the paths that the other programs would use with the same flags.
//! Deliberately absent: whether the files exist; `mws doctor` says that.

use std::path::{Path, PathBuf};

use mws_cli::{Common, Exit, Failure, Output};
use mws_state::StateDir;
use serde_json::{Map, Value};

/// Prints one line for each path: its name, a tab, the path.
pub(crate) fn run(json: bool, common: &Common) -> Result<Exit, Failure> {
    let loaded = common.load_with_path()?;
    let paths = all(&loaded.path, &StateDir::at(&loaded.config.state_dir));
    let mut out = Output::stdout();
    if json {
        let text = |path: &PathBuf| Value::from(path.to_string_lossy().into_owned());
        let map: Map<_, _> = paths.iter().map(|(name, p)| ((*name).to_owned(), text(p))).collect();
        out.line(Value::from(map))?;
    } else {
        for (name, path) in paths {
            out.line(format_args!("{name}\t{}", path.display()))?;
        }
    }
    out.finish()?;
    Ok(Exit::Done)
}

fn all(config: &Path, state: &StateDir) -> Vec<(&'static str, PathBuf)> {
    vec![
        ("config", config.to_owned()),
        ("state", state.root().to_owned()),
        ("events", state.events_dir()),
        ("catalog", state.catalog()),
        ("working-set", state.working_set()),
        ("upstream", state.upstream()),
        ("index", state.index_dir()),
        ("ingest", state.ingest_dir()),
    ]
}
