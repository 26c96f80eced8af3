//! The flags that every program has.
//!
//! Invariant: a flag beats the environment, which beats the file.
//! Deliberately absent: flags for what the pipeline is; that is configuration.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};
use mws_config::{Config, Loaded, Places};
use mws_state::StateDir;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::Failure;

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Flags in common.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Common options")]
pub struct Common {
    /// Configuration file [default: $MWS_CONFIG, else ~/.config/mcp-working-set/config.json]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,

    /// State directory [default: stateDir of the configuration]
    #[arg(long, value_name = "DIR", global = true)]
    pub state_dir: Option<PathBuf>,

    /// Colour the output
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, global = true)]
    pub color: ColorWhen,

    /// Say nothing but errors
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// Say more; may be repeated
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub verbose: u8,
}

impl Common {
    /// Starts logging and reads the configuration; its warnings go to stderr.
    ///
    /// # Errors
    /// A configuration that cannot be used: exit 2.
    pub fn load(&self) -> Result<(Config, StateDir), Failure> {
        let loaded = self.load_with_path()?;
        let state = StateDir::at(&loaded.config.state_dir);
        Ok((loaded.config, state))
    }

    /// As [`Common::load`], for who wants to know which file was read.
    ///
    /// # Errors
    /// A configuration that cannot be used: exit 2.
    pub fn load_with_path(&self) -> Result<Loaded, Failure> {
        self.start_logging();
        let loaded = self.load_config().map_err(Failure::usage)?;
        if let Some(warning) = readable_secrets(&loaded) {
            tracing::warn!("{warning}");
        }
        for warning in &loaded.warnings {
            tracing::warn!("{}: {warning}", loaded.path.display());
        }
        Ok(loaded)
    }

    /// Reads the configuration without a word; the state directory flag is applied.
    ///
    /// # Errors
    /// Says which file and field cannot be used.
    pub fn load_config(&self) -> Result<Loaded, mws_config::ConfigError> {
        let mut loaded = mws_config::load(self.config.as_deref(), &Places::from_env())?;
        if loaded.exists {
            mws_state::check_trusted(&loaded.path)?;
        }
        if let Some(dir) = &self.state_dir {
            loaded.config.state_dir.clone_from(dir);
        }
        Ok(loaded)
    }

    /// Sends log lines to stderr, at the level that `-q` and `-v` ask for. What other packages say
    /// below a warning is left out: it may hold what passes through them.
    pub fn start_logging(&self) {
        let level = match (self.quiet, self.verbose) {
            (true, _) => LevelFilter::ERROR,
            (false, 0) => LevelFilter::WARN,
            (false, 1) => LevelFilter::INFO,
            (false, 2) => LevelFilter::DEBUG,
            (false, _) => LevelFilter::TRACE,
        };
        // A failed write would be told by `eprintln!`, which panics where stderr is closed.
        let _ = tracing_subscriber::fmt()
            .with_writer(io::stderr)
            .log_internal_errors(false)
            .with_max_level(level)
            .with_target(false)
            .without_time()
            .finish()
            .with(targets(level))
            .try_init();
    }
}

/// What to do about a file whose secrets others can read.
fn readable_secrets(loaded: &Loaded) -> Option<String> {
    let mode = std::fs::metadata(&loaded.path).ok()?.permissions().mode();
    let path = loaded.path.display();
    (mode & 0o077 != 0 && loaded.config.upstream.holds_secrets()).then(|| {
        format!(
            "Others can read the headers or env in {path}; mend with: chmod 600 {path}, or write \
             ${{NAME}} or file:PATH in their place."
        )
    })
}

fn targets(level: LevelFilter) -> Targets {
    Targets::new().with_target("mws", level).with_default(level.min(LevelFilter::WARN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn other_packages_say_no_more_than_warnings() {
        let all = targets(LevelFilter::TRACE);
        assert!(all.would_enable("mws_proxy::serve", &Level::TRACE));
        for target in ["hyper_util::client::legacy::pool", "rmcp::service"] {
            assert!(all.would_enable(target, &Level::WARN), "{target}");
            assert!(!all.would_enable(target, &Level::INFO), "{target}");
        }
        let quiet = targets(LevelFilter::ERROR);
        assert!(!quiet.would_enable("mws_proxy", &Level::WARN));
        assert!(!quiet.would_enable("rmcp", &Level::WARN));
    }
}
