//! From bytes to a [`Config`].
//!
//! Invariant: the first wrong field ends the reading with its path; nothing is guessed.
//! Deliberately absent: writing configuration.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::config::{Config, Search, TranscriptRoot, Upstream, UpstreamKind};
use crate::fields::{Fields, wrong};
use crate::listen::listen;
use crate::tools::tools;
use crate::{Places, Secret, promote, retention, url};

const PROTOCOLS: [&str; 5] = ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// A configuration and what was odd about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// The file they come from.
    pub path: PathBuf,
    /// False when there is no such file and all is default.
    pub exists: bool,
    /// Unknown fields and the like, one sentence each.
    pub warnings: Vec<String>,
}

/// The configuration cannot be used; names the file and the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

impl From<String> for ConfigError {
    fn from(why: String) -> Self {
        Self(why)
    }
}

/// Reads the file named by `flag`, else the one that `places` gives. A missing file means
/// defaults, unless it was named by the flag or by `$MWS_CONFIG`.
///
/// # Errors
/// [`ConfigError`] when it cannot be read, is no JSON or has a wrong field.
pub fn load(flag: Option<&Path>, places: &Places) -> Result<Loaded, ConfigError> {
    let path = flag.map_or_else(|| places.config_file(), Path::to_owned);
    let named = flag.is_some() || places.config.is_some();
    let (config, exists, warnings) = match std::fs::read(&path) {
        Ok(bytes) => {
            let (config, warnings) = parse(&bytes, places)
                .map_err(|why| ConfigError(format!("{}: {why}", path.display())))?;
            (config, true, warnings)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound && !named => {
            (Config::defaults(places), false, Vec::new())
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let warning = "does not exist, so all fields have their defaults".to_owned();
            (Config::defaults(places), false, vec![warning])
        }
        Err(e) => return Err(ConfigError(format!("cannot read {}: {e}", path.display()))),
    };
    let config = match &places.state {
        Some(dir) => Config { state_dir: dir.clone(), ..config },
        None => config,
    };
    Ok(Loaded { config, path, exists, warnings })
}

/// Parses the text of a configuration file; the second value is warnings.
///
/// # Errors
/// Says which field is wrong and what was expected.
pub fn parse(bytes: &[u8], places: &Places) -> Result<(Config, Vec<String>), String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let value: Value = serde_json::from_slice(bytes).map_err(|e| format!("not valid JSON: {e}"))?;
    let defaults = Config::defaults(places);
    let mut warnings = Vec::new();
    let top = Fields::new("", &value)?;
    let promotion = promote::read(&top, &mut warnings)?;
    let config = Config {
        upstream: upstream(&top, places, defaults.upstream, &mut warnings)?,
        listen: listen(&top, places, defaults.listen, &mut warnings)?,
        state_dir: state_dir(&top, places, defaults.state_dir, &mut warnings)?,
        server_name: server_name(&top, defaults.server_name)?,
        server_aliases: top.texts("serverAliases")?.unwrap_or_default(),
        backend_hints: top.table("backendHints")?.into_iter().collect(),
        tools: tools(&top, &mut warnings)?,
        pins: top.texts("pins")?.unwrap_or_default(),
        pin_files: top.texts("pinFiles")?.unwrap_or(defaults.pin_files),
        promote: promotion.thresholds,
        cold_start: promotion.cold_start,
        on_change: promotion.on_change,
        transcripts: transcripts(&top, places, &mut warnings)?,
        client_hints: top.flag("clientHints", true)?,
        slim_schemas: top.flag("slimSchemas", true)?,
        notify_on_promotion: top.flag("notifyOnPromotion", false)?,
        session_gap_minutes: top.number("sessionGapMinutes", defaults.session_gap_minutes)?,
        search: search(&top, places, &mut warnings)?,
        retention: retention::read(&top)?,
        input_wait_seconds: top.number("inputWaitSeconds", defaults.input_wait_seconds)?,
    };
    top.unknown(&mut warnings);
    Ok((config, warnings))
}

fn state_dir(
    top: &Fields<'_>,
    places: &Places,
    default: PathBuf,
    warnings: &mut Vec<String>,
) -> Result<PathBuf, String> {
    let Some(text) = top.text("stateDir")? else { return Ok(default) };
    if text.is_empty() {
        return Err("stateDir: is empty".into());
    }
    let dir = path("stateDir", &text, places)?;
    if dir.is_relative() {
        warnings.push(format!(
            "stateDir: '{text}' is relative to the current directory, so programs started \
             elsewhere use another one; begin it with / or ~/"
        ));
    }
    Ok(dir)
}

/// A path with `~` expanded; `~USER` would otherwise be a directory of that very name.
pub(crate) fn path(field: &str, text: &str, places: &Places) -> Result<PathBuf, String> {
    let expanded = places.expand(text);
    if expanded.as_os_str().as_encoded_bytes().starts_with(b"~") {
        return Err(format!(
            "{field}: '{text}' names the home of another user, which is not looked up; write its \
             path in full"
        ));
    }
    Ok(expanded)
}

fn server_name(top: &Fields<'_>, default: String) -> Result<String, String> {
    match top.text("serverName")? {
        Some(name) if name.is_empty() => Err("serverName: is empty".into()),
        Some(name) => Ok(name),
        None => Ok(default),
    }
}

fn upstream(
    top: &Fields<'_>,
    places: &Places,
    default: Upstream,
    warnings: &mut Vec<String>,
) -> Result<Upstream, String> {
    let Some(value) = top.get("upstream") else { return Ok(default) };
    let fields = Fields::new("upstream", value)?;
    let protocol = protocol(&fields)?;
    let (url, command) = (fields.text("url")?, fields.text("command")?);
    let secrets = |name| -> Result<Vec<(String, Secret)>, String> {
        Ok(fields.table(name)?.into_iter().map(|(k, v)| (k, Secret::new(v))).collect())
    };
    let (headers, env) = (secrets("headers")?, secrets("env")?);
    let args = fields.texts("args")?;
    let cwd = fields.text("cwd")?.map(|dir| path("upstream.cwd", &dir, places)).transpose()?;
    let kind = match (url, command) {
        (Some(_), Some(_)) => {
            return Err("upstream: has both 'url' and 'command'; keep one of them".into());
        }
        (_, Some(command)) if command.is_empty() => return Err("upstream.command: is empty".into()),
        (_, Some(command)) => {
            let command = program(&command, places)?;
            UpstreamKind::Command { command, args: args.unwrap_or_default(), env, cwd }
        }
        (url, None) => match default.kind {
            UpstreamKind::Http { url: default, .. } => {
                let url = url.unwrap_or(default);
                url::check(&url).map_err(|why| format!("upstream.url: {why}"))?;
                UpstreamKind::Http { url, headers }
            }
            kind @ UpstreamKind::Command { .. } => kind,
        },
    };
    let timeout_seconds = fields.number("timeoutSeconds", default.timeout_seconds)?;
    if timeout_seconds == 0 {
        return Err("upstream.timeoutSeconds: 0 leaves no time to answer".into());
    }
    let forward_authorization = fields.flag("forwardAuthorization", false)?;
    fields.unknown(warnings);
    Ok(Upstream { kind, protocol, timeout_seconds, forward_authorization })
}

/// The upstream's program: a name to look up on the PATH, or a path.
fn program(command: &str, places: &Places) -> Result<String, String> {
    path("upstream.command", command, places)?
        .into_os_string()
        .into_string()
        .map_err(|_| "upstream.command: the home directory's name is not UTF-8".to_owned())
}

fn protocol(fields: &Fields<'_>) -> Result<Option<String>, String> {
    match fields.text("protocol")? {
        None => Ok(None),
        Some(p) if p == "auto" => Ok(None),
        Some(p) if PROTOCOLS.contains(&p.as_str()) => Ok(Some(p)),
        Some(p) => {
            Err(format!("upstream.protocol: '{p}' is not known; use auto or one of {PROTOCOLS:?}"))
        }
    }
}

fn transcripts(
    top: &Fields<'_>,
    places: &Places,
    warnings: &mut Vec<String>,
) -> Result<Option<Vec<TranscriptRoot>>, String> {
    let Some(value) = top.get("transcripts") else { return Ok(None) };
    let Value::Array(items) = value else { return Err(wrong("transcripts", "a list", value)) };
    let mut roots = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let place = format!("transcripts[{i}]");
        let fields = Fields::new(&place, item)?;
        let missing = |name: &str| format!("{place}.{name}: is missing");
        let kind = fields.text("type")?.ok_or_else(|| missing("type"))?;
        let root = fields.text("root")?.ok_or_else(|| missing("root"))?;
        roots.push(TranscriptRoot { kind, root: path(&fields.path_of("root"), &root, places)? });
        fields.unknown(warnings);
    }
    Ok(Some(roots))
}

fn search(top: &Fields<'_>, places: &Places, warnings: &mut Vec<String>) -> Result<Search, String> {
    let Some(value) = top.get("search") else {
        return Ok(Search { vectors: true, synonyms: None, instructions: true });
    };
    let fields = Fields::new("search", value)?;
    let synonyms = fields.text("synonyms")?;
    let synonyms = synonyms.map(|file| path("search.synonyms", &file, places)).transpose()?;
    let (vectors, instructions) =
        (fields.flag("vectors", true)?, fields.flag("instructions", true)?);
    let search = Search { vectors, synonyms, instructions };
    fields.unknown(warnings);
    Ok(search)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places { home: "/h".into(), ..Places::default() }
    }

    fn error(text: &str) -> String {
        parse(text.as_bytes(), &places()).expect_err("refused")
    }

    #[test]
    fn an_empty_object_means_all_defaults() {
        assert_eq!(parse(b"{}", &places()), Ok((Config::defaults(&places()), Vec::new())));
    }

    #[test]
    fn the_template_of_init_means_all_defaults_and_raises_no_warning() {
        for places in [places(), Places { xdg_state: Some("/s".into()), ..places() }] {
            let text = crate::default_config(&places);
            let (config, warnings) = parse(text.as_bytes(), &places).expect("valid");
            assert_eq!((config, warnings), (Config::defaults(&places), Vec::new()));
        }
    }

    #[test]
    fn unknown_fields_are_warned_about_with_the_nearest_known_one() {
        let text = br#"{"upstraem": 1, "promote": {"minSession": 3}}"#;
        let (_, warnings) = parse(text, &places()).expect("valid");
        assert_eq!(
            warnings,
            [
                "unknown field 'promote.minSession' is ignored; did you mean 'promote.minSessions'?",
                "unknown field 'upstraem' is ignored; did you mean 'upstream'?",
            ]
        );
    }

    #[test]
    fn a_wrong_field_is_named_with_its_path() {
        for (text, want) in [
            (r#"{"promote":{"minSessions":"x"}}"#, "promote.minSessions: expected a whole number"),
            (
                r#"{"promote":{"windowDays":-1}}"#,
                "promote.windowDays: expected a whole number, got -1",
            ),
            (r#"{"pins":["a",1]}"#, "pins[1]: expected a string, got 1"),
            (r#"{"upstream":{"url":"localhost:80"}}"#, "upstream.url: is not a URL"),
            (r#"{"upstream":{"url":"http:///x"}}"#, "upstream.url: is not a URL"),
            (r#"{"upstream":{"url":"http://h","command":"x"}}"#, "upstream: has both"),
            (r#"{"upstream":{"protocol":"2020"}}"#, "upstream.protocol: '2020' is not known"),
            (r#"{"listen":{"port":70000}}"#, "listen.port: 70000 is over 65535"),
            (r#"{"upstream":{"url":"http://h:70000/"}}"#, "upstream.url: port 70000 is over 65535"),
            (r#"{"transcripts":[{"type":"x"}]}"#, "transcripts[0].root: is missing"),
            (
                r#"{"transcripts":[{"type":"x","root":"~u/x"}]}"#,
                "transcripts[0].root: '~u/x' names",
            ),
            (r#"{"stateDir":"~user/x"}"#, "stateDir: '~user/x' names the home of another user"),
            (r#"{"stateDir":""}"#, "stateDir: is empty"),
            (r#"{"clientHints":1}"#, "clientHints: expected true or false, got 1"),
            ("[]", "the whole file: expected an object, got a list"),
            ("{", "not valid JSON"),
        ] {
            let got = error(text);
            assert!(got.starts_with(want), "{text}: {got}");
        }
    }

    #[test]
    fn a_relative_state_directory_is_taken_with_a_warning() {
        let (config, warnings) = parse(br#"{"stateDir":"./~x"}"#, &places()).expect("valid");
        assert_eq!(config.state_dir, Path::new("./~x"));
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with("stateDir: './~x' is relative"), "{warnings:?}");
        for absolute in ["~/x", "~", "/x"] {
            let text = format!(r#"{{"stateDir":"{absolute}"}}"#);
            assert!(parse(text.as_bytes(), &places()).expect("valid").1.is_empty(), "{absolute}");
        }
    }

    #[test]
    fn the_upstream_command_may_begin_at_home() {
        let parsed = |command: &str| {
            let text = format!(r#"{{"upstream":{{"command":"{command}"}}}}"#);
            parse(text.as_bytes(), &places()).map(|(config, _)| config.upstream.kind)
        };
        for (command, want) in [("~/bin/x", "/h/bin/x"), ("npx", "npx"), ("./x", "./x")] {
            let kind = parsed(command).expect("valid");
            assert!(matches!(kind, UpstreamKind::Command { command, .. } if command == want));
        }
        assert!(parsed("~u/x").is_err_and(|why| why.starts_with("upstream.command: '~u/x'")));
    }

    #[test]
    fn a_literal_header_value_never_shows_in_an_error() {
        let got = error(r#"{"upstream":{"headers":{"Authorization":"s3cret"},"protocol":1}}"#);
        assert!(!got.contains("s3cret"), "{got}");
    }

    #[test]
    fn a_missing_named_file_is_said() {
        let loaded = load(Some(Path::new("/nonexistent/c.json")), &places()).expect("defaults");
        assert_eq!((loaded.exists, loaded.warnings.len()), (false, 1));
        let loaded = load(None, &places()).expect("defaults");
        assert_eq!((loaded.exists, loaded.warnings.len()), (false, 0));
    }
}
