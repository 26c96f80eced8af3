//! Where to look: operands, else the configured roots, else the default places of each client.
//!
//! Invariant: a root that is missing or of an unknown type is a warning; an operand that is
//! missing is a failure, for it was just typed.
//! Deliberately absent: merging of defaults with configured roots.

use std::path::PathBuf;

use mws_cli::Failure;
use mws_config::{Config, Places, TranscriptRoot, nearest};

use crate::cli::Cli;
use crate::sources::{SOURCES, Source};
use crate::walk::Root;

/// The roots of this run, and what is odd about them.
///
/// # Errors
/// Usage: an unknown `--source`, or an operand that does not exist.
pub(crate) fn roots(
    cli: &Cli,
    config: &Config,
    places: &Places,
) -> Result<(Vec<Root>, Vec<String>), Failure> {
    let mut warnings = Vec::new();
    let wanted = wanted(&cli.source)?;
    let roots = if !cli.paths.is_empty() {
        operands(&cli.paths, &wanted)?
    } else if let Some(configured) = &config.transcripts {
        configured_roots(configured, &cli.source, &wanted, &mut warnings)
    } else {
        default_roots(&wanted, places, &mut warnings)
    };
    Ok((roots, warnings))
}

fn wanted(names: &[String]) -> Result<Vec<&'static Source>, Failure> {
    if names.is_empty() {
        return Ok(SOURCES.iter().collect());
    }
    let mut wanted = Vec::new();
    for name in names {
        match by_name(name) {
            Some(source) => wanted.push(source),
            None => {
                let known: Vec<_> = SOURCES.iter().map(|source| source.name).collect();
                let unknown = Failure::usage(format!("unknown transcript type '{name}'"));
                return Err(unknown.hint(format!("known: {}", known.join(", "))));
            }
        }
    }
    Ok(wanted)
}

fn operands(paths: &[PathBuf], wanted: &[&'static Source]) -> Result<Vec<Root>, Failure> {
    let mut roots = Vec::new();
    for path in paths {
        if let Err(e) = std::fs::metadata(path) {
            return Err(Failure::usage(format!("cannot read {}: {e}", path.display())));
        }
        roots.extend(wanted.iter().map(|&source| Root { source, path: path.clone() }));
    }
    Ok(roots)
}

fn configured_roots(
    configured: &[TranscriptRoot],
    named: &[String],
    wanted: &[&'static Source],
    warnings: &mut Vec<String>,
) -> Vec<Root> {
    let mut roots = Vec::new();
    for TranscriptRoot { kind, root } in configured {
        if !named.is_empty() && !named.contains(kind) {
            continue;
        }
        match by_name(kind) {
            Some(source) if wanted.iter().any(|wanted| wanted.name == source.name) => {
                if root.exists() {
                    roots.push(Root { source, path: root.clone() });
                } else {
                    warnings.push(format!("transcript root {} does not exist", root.display()));
                }
            }
            Some(_) => {}
            None => warnings.push(unknown(kind)),
        }
    }
    roots
}

/// Nobody uses all clients: only when nothing is there at all, something is odd.
fn default_roots(
    wanted: &[&'static Source],
    places: &Places,
    warnings: &mut Vec<String>,
) -> Vec<Root> {
    let (mut roots, mut missing) = (Vec::new(), Vec::new());
    for &source in wanted {
        for path in (source.default_roots)(places) {
            if path.is_dir() {
                roots.push(Root { source, path });
            } else {
                missing.push(path.display().to_string());
            }
        }
    }
    if roots.is_empty() {
        warnings.push(format!(
            "no transcripts in {}; if they are elsewhere, name the folder in `transcripts`",
            missing.join(", ")
        ));
    }
    roots
}

fn by_name(name: &str) -> Option<&'static Source> {
    SOURCES.iter().find(|source| source.name == name)
}

fn unknown(kind: &str) -> String {
    let guess = nearest(kind, SOURCES.iter().map(|source| source.name));
    let guess = guess.map(|guess| format!(", did you mean '{guess}'?")).unwrap_or_default();
    format!("unknown transcript type '{kind}'{guess}; left out")
}
