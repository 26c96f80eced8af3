//! Where the configuration and the state live.
//!
//! Invariant: the environment is read once, by [`Places::from_env`]; all else is a function of it.
//! Deliberately absent: creating anything.

use std::env;
use std::path::{Path, PathBuf};

/// What the environment says about places.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// `$HOME`.
    pub home: PathBuf,
    /// `$XDG_CONFIG_HOME`, when set and absolute.
    pub xdg_config: Option<PathBuf>,
    /// `$XDG_STATE_HOME`, when set and absolute.
    pub xdg_state: Option<PathBuf>,
    /// `$MWS_CONFIG`.
    pub config: Option<PathBuf>,
    /// `$MWS_STATE_DIR`.
    pub state: Option<PathBuf>,
}

impl Places {
    /// Reads the environment.
    pub fn from_env() -> Self {
        let var = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        Self {
            home: var("HOME").unwrap_or_default(),
            xdg_config: var("XDG_CONFIG_HOME").filter(|p| p.is_absolute()),
            xdg_state: var("XDG_STATE_HOME").filter(|p| p.is_absolute()),
            config: var("MWS_CONFIG"),
            state: var("MWS_STATE_DIR"),
        }
    }

    /// The configuration file in force when no flag names one.
    pub fn config_file(&self) -> PathBuf {
        self.config.clone().unwrap_or_else(|| self.default_config_file())
    }

    /// `~/.config/mcp-working-set/config.json`.
    pub fn default_config_file(&self) -> PathBuf {
        let dir = self.xdg_config.clone().unwrap_or_else(|| self.home.join(".config"));
        dir.join("mcp-working-set").join("config.json")
    }

    /// `~/.local/state/mcp-working-set`.
    pub fn state_dir(&self) -> PathBuf {
        let dir = self.xdg_state.clone().unwrap_or_else(|| self.home.join(".local/state"));
        dir.join("mcp-working-set")
    }

    /// `path` with a leading `~` replaced by the home directory.
    pub fn expand(&self, path: &str) -> PathBuf {
        match path.strip_prefix('~') {
            Some("") => self.home.clone(),
            Some(rest) if rest.starts_with('/') => self.home.join(rest.trim_start_matches('/')),
            _ => Path::new(path).to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xdg_directories_and_the_tilde_are_honoured() {
        let home = Places { home: "/h".into(), ..Places::default() };
        assert_eq!(home.config_file(), Path::new("/h/.config/mcp-working-set/config.json"));
        assert_eq!(home.state_dir(), Path::new("/h/.local/state/mcp-working-set"));
        assert_eq!(home.expand("~/x"), Path::new("/h/x"));
        assert_eq!(home.expand("~other/x"), Path::new("~other/x"));
        let xdg = Places { xdg_config: Some("/c".into()), xdg_state: Some("/s".into()), ..home };
        assert_eq!(xdg.config_file(), Path::new("/c/mcp-working-set/config.json"));
        assert_eq!(xdg.state_dir(), Path::new("/s/mcp-working-set"));
        let named = Places { config: Some("/n.json".into()), ..xdg };
        assert_eq!(named.config_file(), Path::new("/n.json"));
    }
}
