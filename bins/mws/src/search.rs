//! `mws search`: what `search_tools` would answer, from the catalog as it is now.
//!
//! Invariant: an upstream that is down costs freshness, not the answer.
//! Deliberately absent: ranking; `mws-index search` does it.

use std::ffi::OsString;

use mws_cli::{Common, Failure};

use crate::{check, dispatch};

/// Refreshes the catalog if the upstream answers, then becomes `mws-index search`.
pub(crate) fn exec(common: &Common, args: &[OsString]) -> Failure {
    let flags = crate::flags(common);
    if needs_catalog(args)
        && let Err(why) = check::upstream(&flags)
    {
        common.start_logging();
        tracing::warn!("Searching the catalog on disk, for there is no upstream: {why}");
    }
    let words: Vec<OsString> = std::iter::once("search".into()).chain(args.to_vec()).collect();
    dispatch::exec("index", &flags, &words)
}

/// A catalog named on the command line, and a call for help, need no upstream.
fn needs_catalog(args: &[OsString]) -> bool {
    !args.iter().any(|arg| {
        arg.to_str().is_some_and(|arg| {
            matches!(arg, "-h" | "--help" | "-V" | "--version") || arg.starts_with("--catalog")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_catalog_is_not_refreshed() {
        let args = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert!(needs_catalog(&args("share a file")));
        assert!(!needs_catalog(&args("--catalog c.json share")));
        assert!(!needs_catalog(&args("--catalog=c.json share")));
        assert!(!needs_catalog(&args("--help")));
    }
}
