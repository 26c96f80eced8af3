//! The front command of mcp-working-set: `mws NAME` is built in or runs `mws-NAME`.
//!
//! Reads the config, the event log and the published files; writes a config (`init`) and, for the
//! demo, a temporary directory. Invariant: whatever is not built in is done by a program of its
//! own that takes this one's place.
//! Deliberately absent: what the other programs do; they meet in files only.

mod check;
mod demo;
mod dispatch;
mod doctor;
mod init;
mod log;
mod paths;
mod search;

use std::ffi::OsString;

use clap::{CommandFactory, Parser, Subcommand};
use mws_cli::{Common, Exit, Failure, Output};

pub use log::LogArgs;

const OTHERS: &str = "\
Run by programs of their own:
  serve    Run the proxy (mws-proxy)
  ingest   Read client transcripts into the event log (mws-ingest)
  promote  Decide which tools are listed (mws-promote)
  index    Publish the search index (mws-index)
  search   Ask what search_tools would answer (mws-index search)
  report   Show what is listed, saved, called and searched (mws-report)
`mws help NAME` shows the options of each. Any program mws-NAME on PATH is a command too.";

/// An MCP proxy that lists only the tools in use, and its pipeline.
#[derive(Debug, Parser)]
#[command(name = "mws", version, after_help = OTHERS, disable_help_subcommand = true)]
#[command(arg_required_else_help = true)]
pub struct Cli {
    /// Flags in common; passed on to the other programs when given before the command.
    #[command(flatten)]
    pub common: Common,
    // Required by `run`: the complaint of clap would list the hidden command too.
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The built-in commands, and all others.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write a configuration file with the defaults.
    Init,
    /// Check config, upstream, state directory, transcripts and published files.
    Doctor,
    /// Show the whole pipeline with a made-up server and made-up transcripts.
    Demo {
        /// Stop after the report instead of serving until Ctrl-C.
        #[arg(long)]
        once: bool,
    },
    /// Print the event log: one JSON object a line.
    Log(LogArgs),
    /// Print where everything is.
    Paths {
        /// As one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show the help of a command.
    Help {
        /// The command.
        command: Option<String>,
    },
    /// The demo's server, on stdin and stdout.
    #[command(hide = true)]
    DemoUpstream,
    /// Any other command.
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

/// Does what the command line asks for.
///
/// # Errors
/// What could not be done, and why.
pub fn run(cli: &Cli) -> Result<Exit, Failure> {
    let Some(command) = &cli.command else { return Err(dispatch::no_command()) };
    match command {
        Command::Init => init::run(&cli.common),
        Command::Doctor => doctor::run(&cli.common),
        Command::Demo { once } => demo::run(*once),
        Command::Log(args) => log::run(args, &cli.common),
        Command::Paths { json } => paths::run(*json, &cli.common),
        Command::Help { command } => help(command.as_deref()),
        Command::DemoUpstream => demo::serve_upstream(),
        Command::Other(words) => Err(other(words, &cli.common)),
    }
}

/// Becomes another program; what is returned is why that was not possible.
fn other(words: &[OsString], common: &Common) -> Failure {
    let Some((name, args)) = words.split_first() else {
        return dispatch::no_command();
    };
    match name.to_str() {
        Some("search") => search::exec(common, args),
        Some(name) => dispatch::exec(name, &flags(common), args),
        None => Failure::usage("the name of a command is plain ASCII"),
    }
}

/// The flags that stood before the command, for the program that takes over.
fn flags(common: &Common) -> Vec<OsString> {
    let mut flags = Vec::new();
    let paths = [("--config", &common.config), ("--state-dir", &common.state_dir)];
    for (flag, path) in paths {
        if let Some(path) = path {
            flags.extend([flag.into(), path.into()]);
        }
    }
    match common.color {
        mws_cli::ColorWhen::Auto => {}
        mws_cli::ColorWhen::Always => flags.push("--color=always".into()),
        mws_cli::ColorWhen::Never => flags.push("--color=never".into()),
    }
    if common.quiet {
        flags.push("--quiet".into());
    }
    flags.extend((0..common.verbose).map(|_| OsString::from("--verbose")));
    flags
}

fn help(command: Option<&str>) -> Result<Exit, Failure> {
    let mut cli = Cli::command();
    cli.build();
    let page = match command {
        None => cli.render_help(),
        Some(name) => match cli.find_subcommand_mut(name) {
            Some(built_in) => built_in.render_help(),
            None => return Err(other(&[name.into(), "--help".into()], &Common::default())),
        },
    };
    let mut out = Output::stdout();
    out.line(page.to_string().trim_end())?;
    out.finish()?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Cli {
        Cli::try_parse_from(line.split(' ')).expect("a command line")
    }

    #[test]
    fn flags_before_the_command_are_passed_on_and_those_behind_it_left_alone() {
        let cli = parse("mws --config c.json -vv --state-dir s promote --json --config other");
        assert_eq!(
            flags(&cli.common),
            ["--config", "c.json", "--state-dir", "s", "--verbose", "--verbose"]
        );
        let Some(Command::Other(words)) = cli.command else { panic!("not passed on") };
        assert_eq!(words, ["promote", "--json", "--config", "other"]);
    }

    #[test]
    fn the_help_names_every_command_of_the_other_programs() {
        for (name, what) in dispatch::EXTERNAL {
            assert!(OTHERS.contains(&format!("  {name:<7}  {what}\n")), "{name}");
        }
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
