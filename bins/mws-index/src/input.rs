//! What is indexed: a catalog and the options.
//!
//! Invariant: a definition that cannot be used costs a warning, a catalog that cannot be read ends
//! the run with its path in the message. Deliberately absent: network.

use std::io::Read;
use std::path::Path;

use mws_catalog::Catalog;
use mws_cli::Failure;
use mws_config::Config;
use mws_search::{Options, WordVectors};
use mws_state::{StateDir, read_file};

/// The largest catalog read, in bytes.
const CATALOG_MAX: u64 = 256 << 20;

/// Reads the catalog that an operand names, `-` being stdin, else the state directory's.
pub(crate) fn catalog(operand: Option<&Path>, state: &StateDir) -> Result<Catalog, Failure> {
    let (bytes, from) = match operand {
        Some(path) if path == Path::new("-") => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().take(CATALOG_MAX).read_to_end(&mut bytes);
            read.map_err(|e| Failure::usage(format!("cannot read the catalog from stdin: {e}")))?;
            (bytes, "stdin".to_owned())
        }
        Some(path) => {
            let cannot = |e| Failure::usage(format!("cannot read {}: {e}", path.display()));
            (std::fs::read(path).map_err(cannot)?, path.display().to_string())
        }
        None => {
            let path = state.catalog();
            let (bytes, _) = read_file(&path, CATALOG_MAX).map_err(|e| {
                Failure::failed(format!("cannot read {}: {e}", path.display()))
                    .hint("the proxy writes it; run `mws-proxy --check` once")
            })?;
            (bytes, path.display().to_string())
        }
    };
    let (catalog, rejected) = Catalog::parse(&bytes).map_err(|e| match operand {
        Some(_) => Failure::usage(format!("cannot use the catalog {from}: {e}")),
        None => Failure::failed(format!("{from}: {e}")),
    })?;
    for tool in &rejected {
        tracing::warn!("{from}: tool {} is left out: {}.", tool.index, tool.reason);
    }
    Ok(catalog)
}

/// The table of word vectors, unless the configuration switches it off.
pub(crate) fn vectors(config: &Config) -> Option<WordVectors> {
    const TABLE: &[u8] = include_bytes!("../data/wordvec.bin");
    let table = config.search.vectors.then(|| WordVectors::parse(TABLE));
    table.flatten()
}

/// What the configuration adds to the index.
pub(crate) fn options(config: &Config) -> Result<Options, Failure> {
    let synonyms = config.search.read_synonyms().map_err(Failure::usage)?;
    Ok(Options { hints: config.backend_hints.clone(), synonyms })
}
