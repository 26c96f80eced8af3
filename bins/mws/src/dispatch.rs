//! From a command name to the program that does it, and into that program.
//!
//! Invariant: the program takes the place of this process, so signals, standard streams and the
//! exit code pass through untouched.
//! Deliberately absent: abbreviations, and aliases other than `serve` and `search`.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use mws_cli::Failure;

/// Commands that other programs do: name, and what it is for.
pub(crate) const EXTERNAL: [(&str, &str); 6] = [
    ("serve", "Run the proxy (mws-proxy)"),
    ("ingest", "Read client transcripts into the event log (mws-ingest)"),
    ("promote", "Decide which tools are listed (mws-promote)"),
    ("index", "Publish the search index (mws-index)"),
    ("search", "Ask what search_tools would answer (mws-index search)"),
    ("report", "Show what is listed, saved, called and searched (mws-report)"),
];

/// Becomes the program for `name`, with `flags` before `args`. Returns only when it cannot.
pub(crate) fn exec(name: &str, flags: &[OsString], args: &[OsString]) -> Failure {
    let program = match name {
        "serve" => "proxy",
        other => other,
    };
    let Some(path) = find(program) else {
        return unknown(name);
    };
    let error = Command::new(&path).args(flags).args(args).exec();
    Failure::failed(format!("cannot run {}: {error}", path.display()))
}

/// The path of `mws-<name>`: beside our own executable, else on `PATH`.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return None;
    }
    let program = format!("mws-{name}");
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(Path::to_path_buf);
    let path = std::env::var_os("PATH").unwrap_or_default();
    beside
        .into_iter()
        .chain(std::env::split_paths(&path))
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(&program))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The answer to a command line that ends before the command.
pub(crate) fn no_command() -> Failure {
    Failure::usage(format!("no command given; there are {}", names().join(", ")))
        .hint("`mws help` says what each does")
}

/// A command that a release has but this installation lacks, or no command at all.
fn unknown(name: &str) -> Failure {
    if EXTERNAL.iter().any(|(known, _)| *known == name) {
        return Failure::failed(format!(
            "'mws {name}': its program is neither beside mws nor on PATH"
        ))
        .hint("install all of mws and mws-*, for example with scripts/install.sh");
    }
    let known = names();
    let failure =
        Failure::usage(format!("'{name}' is no mws command; there are {}", known.join(", ")));
    match mws_config::nearest(name, known) {
        Some(near) => failure.hint(format!("did you mean '{near}'?")),
        None => failure,
    }
}

fn names() -> Vec<&'static str> {
    let built_in = ["init", "doctor", "demo", "log", "paths", "help"];
    built_in.into_iter().chain(EXTERNAL.iter().map(|(name, _)| *name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_path_characters_are_no_programs() {
        for name in ["", "../sh", "a/b", "a b", "é"] {
            assert_eq!(find(name), None, "{name}");
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_all_that_there_are() {
        let failure = unknown("promot");
        for name in names() {
            assert!(failure.message().contains(name), "{name}");
        }
    }
}
