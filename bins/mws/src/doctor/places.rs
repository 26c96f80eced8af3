//! Checks of the config file, the state directory and the transcript roots.
//!
//! Invariant: nothing is left behind but the state directory itself.
//! Deliberately absent: reading transcripts; how many files there are is enough.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mws_config::{Config, Loaded, Places};
use mws_state::StateDir;

use super::{Finding, Level};

/// Deep enough for transcripts of sub-agents and for a year/month/day tree.
const DEPTH: usize = 6;

pub(super) fn config(loaded: &Loaded) -> Vec<Finding> {
    let path = loaded.path.display();
    let mut findings: Vec<Finding> = loaded
        .warnings
        .iter()
        .map(|warning| Finding::new(Level::Warn, "config", format!("{path}: {warning}")))
        .collect();
    let first = if loaded.exists {
        Finding::new(Level::Ok, "config", format!("{path}"))
    } else {
        Finding::new(Level::Ok, "config", format!("{path}: not there, all defaults"))
            .hint("write one with `mws init`")
    };
    findings.insert(0, first);
    let readable =
        std::fs::metadata(&loaded.path).is_ok_and(|m| m.permissions().mode() & 0o077 != 0);
    if readable && loaded.config.upstream.holds_secrets() {
        findings.push(
            Finding::new(Level::Warn, "config", "others can read the headers or env in it")
                .hint(format!("chmod 600 {path}")),
        );
    }
    findings
}

pub(super) fn state(state: &StateDir) -> Finding {
    let path = state.root().display();
    let what = "state";
    if let Err(e) = state.create() {
        return Finding::new(Level::Fail, what, e.to_string())
            .hint("change `stateDir`, or mend the directory as said");
    }
    if let Err(e) = tempfile::Builder::new().prefix(".doctor").tempfile_in(state.root()) {
        return Finding::new(Level::Fail, what, format!("{path}: cannot write there: {e}"))
            .hint("free some space, or change `stateDir`");
    }
    let mode = std::fs::metadata(state.root()).map_or(0, |meta| meta.permissions().mode() & 0o777);
    if mode & 0o077 != 0 {
        return Finding::new(Level::Warn, what, format!("{path}: others can look into it"))
            .hint(format!("chmod 700 {path}"));
    }
    Finding::new(Level::Ok, what, format!("{path}: writable, private"))
}

/// One finding for each configured root; with no roots configured, one for all default places.
pub(super) fn transcripts(config: &Config) -> Vec<Finding> {
    let what = "transcripts";
    let Some(roots) = &config.transcripts else {
        let found: Vec<String> =
            default_roots().iter().filter_map(|root| described(root)).collect();
        return vec![if found.is_empty() {
            Finding::new(Level::Warn, what, "none in the default places of the clients").hint(
                "name their folder in `transcripts`; until then only calls through the proxy count",
            )
        } else {
            Finding::new(Level::Ok, what, found.join("; "))
        }];
    };
    roots
        .iter()
        .map(|root| match described(&root.root) {
            Some(text) => Finding::new(Level::Ok, what, format!("{}: {text}", root.kind)),
            None => {
                let text = format!("{}: none below {}", root.kind, root.root.display());
                Finding::new(Level::Warn, what, text)
                    .hint("correct `transcripts`, or use the client first")
            }
        })
        .collect()
}

fn default_roots() -> Vec<PathBuf> {
    let places = Places::from_env();
    let own = |variable: &str, usual: &str| {
        let named = std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from);
        named.unwrap_or_else(|| places.expand(usual))
    };
    vec![
        own("CLAUDE_CONFIG_DIR", "~/.claude").join("projects"),
        places.expand("~/.config/claude/projects"),
        own("CODEX_HOME", "~/.codex").join("sessions"),
        own("GEMINI_CLI_HOME", "~").join(".gemini/tmp"),
        own("QWEN_HOME", "~/.qwen").join("projects"),
    ]
}

/// The root with its number of transcripts, unless there are none.
fn described(root: &Path) -> Option<String> {
    let n = count(root, DEPTH);
    (n > 0).then(|| format!("{n} files below {}", root.display()))
}

fn count(dir: &Path, depth: usize) -> usize {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() && depth > 0 => count(&entry.path(), depth - 1),
            Ok(kind) if kind.is_file() => usize::from(is_transcript(&entry.path())),
            _ => 0,
        })
        .sum()
}

fn is_transcript(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".jsonl") || name.ends_with(".jsonl.zst")
}

#[cfg(test)]
mod tests {
    use super::*;
    use mws_config::TranscriptRoot;

    #[test]
    fn a_root_without_transcripts_is_a_warning() {
        let tmp = tempfile::tempdir().expect("a directory");
        let root = tmp.path().join("p");
        let mut config = Config::defaults(&Places::default());
        let kind = "claude-code".to_owned();
        config.transcripts = Some(vec![TranscriptRoot { kind, root: root.clone() }]);
        assert_eq!(transcripts(&config)[0].level, Level::Warn);
        mws_state::publish(&root.join("s.jsonl"), b"{}\n").expect("written");
        let found = &transcripts(&config)[0];
        assert_eq!(found.level, Level::Ok);
        assert!(found.text.contains("1 files"), "{}", found.text);
    }

    #[test]
    fn a_state_directory_open_to_others_is_reported_with_the_command_that_mends_it() {
        let tmp = tempfile::tempdir().expect("a directory");
        let dir = StateDir::at(tmp.path().join("s"));
        assert_eq!(state(&dir).level, Level::Ok);
        let open = |mode| std::fs::set_permissions(dir.root(), PermissionsExt::from_mode(mode));
        open(0o755).expect("chmod");
        let readable = state(&dir);
        assert_eq!(readable.level, Level::Warn);
        assert!(readable.hint.is_some_and(|hint| hint.starts_with("chmod 700 ")));
        open(0o777).expect("chmod");
        assert_eq!(state(&dir).level, Level::Fail);
    }
}
