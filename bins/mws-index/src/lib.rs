//! `mws-index`: builds the search snapshot from the catalog, and searches from the command line.
//!
//! Reads `catalog.json` and the configuration; writes `index/` and one event a publication.
//! Invariant: whatever is in `index/` can be deleted at any time; the next run makes it again.
//! Deliberately absent: asking the upstream for its tools, which the proxy does.

mod build;
mod input;
mod published;
mod search;
mod store;

use clap::{Parser, Subcommand};
use mws_cli::{Common, Exit, Failure};

pub use build::BuildArgs;
pub use search::SearchArgs;

/// Build the search index of the tool catalog, or search it
#[derive(Debug, Parser)]
#[command(name = "mws-index", version)]
pub struct Cli {
    /// What to do
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Flags of `build`, which may be left out
    #[command(flatten)]
    pub build: BuildArgs,

    /// Flags in common
    #[command(flatten)]
    pub common: Common,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Build the index and publish its snapshot (the default)
    Build(BuildArgs),
    /// Search as the proxy's search_tools does
    Search(SearchArgs),
}

/// Runs the program.
///
/// # Errors
/// The message for stderr; usage and configuration end with exit code 2.
pub fn run(cli: &Cli) -> Result<Exit, Failure> {
    if cli.command.is_some() && cli.build != BuildArgs::default() {
        return Err(Failure::usage("flags of a command must stand behind it"));
    }
    let (config, state) = cli.common.load()?;
    match &cli.command {
        None => build::run(&cli.build, &config, &state),
        Some(Command::Build(args)) => build::run(args, &config, &state),
        Some(Command::Search(args)) => search::run(args, &config, &state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_is_the_default_and_flags_go_to_their_command() {
        let bare = Cli::try_parse_from(["mws-index", "--full", "catalog.json"]).unwrap();
        assert!(bare.command.is_none() && bare.build.full);
        let named = Cli::try_parse_from(["mws-index", "build", "-n", "-"]).unwrap();
        assert!(matches!(named.command, Some(Command::Build(args)) if args.dry_run));
        let line = ["mws-index", "--state-dir", "/s", "search", "--limit", "3", "send", "mail"];
        let search = Cli::try_parse_from(line).unwrap();
        let Some(Command::Search(args)) = search.command else { panic!("no search") };
        assert_eq!((args.query.join(" "), args.limit), ("send mail".to_owned(), 3));
        let batch = Cli::try_parse_from(["mws-index", "search", "--batch"]).unwrap();
        assert!(matches!(batch.command, Some(Command::Search(args)) if args.batch.is_some()));
        let mixed = Cli::try_parse_from(["mws-index", "--full", "search", "x"]).unwrap();
        assert!(run(&mixed).is_err());
    }
}
