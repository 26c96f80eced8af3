//! Checks of the log and of what the programs have published.
//!
//! Invariant: a published file that is missing or damaged is a warning; the proxy serves anyway.
//! Deliberately absent: opinions on the numbers; `mws report` shows them.

use std::path::Path;

use mws_catalog::{Catalog, META_TOOLS, Tool, client_problem};
use mws_config::Config;
use mws_event::{Event, Gaps, Kind};
use mws_state::{StateDir, log_size, read_events, read_file};
use serde_json::Value;

use super::{Finding, Level};

const FILE_MAX: u64 = 64 * 1024 * 1024;

/// Checks the log, and in it whether the search index was built from the newest catalog.
pub(super) fn log(state: &StateDir, config: &Config) -> Vec<Finding> {
    let (events, damage) = read_events(state);
    let mut findings = vec![size(&events, log_size(state), config)];
    let missing = missing(&events);
    if missing > 0 {
        let text = format!("{missing} events are missing between others of the same program");
        let hint = "lost when a disk was full or a file was damaged; the rest counts";
        findings.push(Finding::new(Level::Warn, "log", text).hint(hint));
    }
    if !damage.is_none() {
        let text = format!(
            "skipped {} damaged lines, {} lines of a later version, {} unreadable files",
            damage.bad_lines, damage.newer, damage.unreadable
        );
        findings.push(
            Finding::new(Level::Warn, "log", text)
                .hint("harmless, unless the numbers keep growing"),
        );
    }
    findings.push(index(&events, state.index_current().exists()));
    findings
}

/// How much log there is, since when, and how much there may be.
fn size(events: &[Event], bytes: u64, config: &Config) -> Finding {
    let what = "log";
    let days = match config.retention.days(&config.promote) {
        Ok(days) => days,
        Err(why) => {
            let hint = "keep the log longer, or look back less; until then `mws promote` refuses";
            return Finding::new(Level::Fail, what, why).hint(hint);
        }
    };
    let oldest = events.iter().map(Event::ts).min();
    let since = oldest.map(|ts| format!(" since {}", ts.date())).unwrap_or_default();
    let cap = config.retention.bytes;
    let noun = if events.len() == 1 { "event" } else { "events" };
    let text = format!(
        "{} {noun}{since}, {} of at most {}, kept {days} days",
        events.len(),
        megabytes(bytes),
        megabytes(cap)
    );
    if bytes > cap {
        let hint = "`mws promote` removes what it can and says what it cannot, and why";
        return Finding::new(Level::Warn, what, text).hint(hint);
    }
    Finding::new(Level::Ok, what, text)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1024.0 * 1024.0))
}

fn missing(events: &[Event]) -> u64 {
    let mut gaps = Gaps::default();
    events.iter().filter_map(Event::id).for_each(|id| gaps.take_in(id));
    gaps.missing()
}

fn index(events: &[Event], published: bool) -> Finding {
    let (mut wanted, mut built) = (None, None);
    for event in events {
        if let Event::Record(record) = event {
            match &record.kind {
                Kind::CatalogChanged { hash, .. } => wanted = Some(hash),
                Kind::IndexPublished { catalog_hash, .. } => built = Some(catalog_hash),
                _ => {}
            }
        }
    }
    match (published, built) {
        (true, Some(built)) if wanted.is_none_or(|wanted| wanted == built) => {
            Finding::new(Level::Ok, "index", "built from the present catalog")
        }
        (true, Some(_)) => Finding::new(Level::Warn, "index", "built from an earlier catalog")
            .hint("run `mws index`; until then the proxy indexes in memory"),
        (true, None) => {
            Finding::new(Level::Warn, "index", "the log does not say from which catalog")
                .hint("run `mws index --full`")
        }
        (false, _) => Finding::new(Level::Warn, "index", "none yet")
            .hint("run `mws index`; until then the proxy indexes in memory"),
    }
}

/// Checks the catalog, that it holds the tools which the config pins, and that clients take them.
pub(super) fn catalog(state: &StateDir, config: &Config) -> Vec<Finding> {
    let what = "catalog";
    let read = read_file(&state.catalog(), FILE_MAX).map_err(|e| e.to_string());
    let parsed = read.and_then(|(bytes, _)| Catalog::parse(&bytes).map_err(|e| e.to_string()));
    let (catalog, rejected) = match parsed {
        Ok(parsed) => parsed,
        Err(why) => {
            let text = format!("{}: {why}", state.catalog().display());
            let hint = "the proxy writes it when it reaches its upstream";
            return vec![Finding::new(Level::Warn, what, text).hint(hint)];
        }
    };
    let mut findings = vec![Finding::new(Level::Ok, what, format!("{} tools", catalog.len()))];
    findings.extend(rejected.iter().map(|tool| {
        let text =
            format!("tool {} of the upstream's list is left out: {}", tool.index, tool.reason);
        Finding::new(Level::Warn, what, text)
    }));
    let problem = |tool: &&Tool| client_problem(tool, &config.server_name).is_some();
    let unsafe_tools = catalog.tools().iter().filter(problem).count();
    if unsafe_tools > 0 {
        let text =
            format!("{unsafe_tools} tools would upset clients, so they are not listed by use");
        findings.push(Finding::new(Level::Warn, what, text).hint("call_tool still reaches them"));
    }
    findings.extend(META_TOOLS.iter().filter(|name| catalog.get(name).is_some()).map(|name| {
        let text = format!("the upstream has a tool '{name}' of its own, which is not listed");
        Finding::new(Level::Warn, what, text).hint("call_tool still reaches it")
    }));
    findings.extend(config.pins.iter().filter_map(|pin| pinned(pin, &catalog, config)));
    findings
}

/// What is wrong with a pin, if anything is.
fn pinned(pin: &str, catalog: &Catalog, config: &Config) -> Option<Finding> {
    let Some(tool) = catalog.get(pin) else {
        let text = format!("'{pin}' is pinned, but the upstream has no such tool");
        let finding = Finding::new(Level::Warn, "pins", text);
        let near = mws_config::nearest(pin, catalog.tools().iter().map(Tool::name));
        return Some(finding.hint(match near {
            Some(near) => format!("did you mean '{near}'?"),
            None => "take it out of `pins`".to_owned(),
        }));
    };
    let why = client_problem(tool, &config.server_name)?;
    let finding = Finding::new(Level::Warn, "pins", format!("'{pin}' may upset clients: {why}"));
    Some(finding.hint("take it out of `pins`; call_tool still reaches it"))
}

pub(super) fn working_set(state: &StateDir) -> Finding {
    let what = "working set";
    match names(&state.working_set()) {
        Ok(names) => {
            let listed = if names.is_empty() { "no tool yet".into() } else { names.join(", ") };
            Finding::new(Level::Ok, what, format!("{}: {listed}", names.len()))
        }
        Err(why) => {
            Finding::new(Level::Warn, what, format!("{}: {why}", state.working_set().display()))
                .hint("run `mws ingest` and `mws promote`; until then only pins are listed")
        }
    }
}

/// The names under `tools`, each an object with a `name` or the name itself.
fn names(path: &Path) -> Result<Vec<String>, String> {
    let (bytes, _) = read_file(path, FILE_MAX).map_err(|e| e.to_string())?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|e| format!("damaged: {e}"))?;
    let tools = value["tools"].as_array().ok_or("damaged: it has no list 'tools'")?;
    let name = |tool: &Value| tool["name"].as_str().or(tool.as_str()).map(str::to_owned);
    Ok(tools.iter().filter_map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: Kind) -> Event {
        let ts = mws_event::Timestamp::from_unix_ms(0);
        Event::Record(mws_event::Record::new(ts, kind))
    }

    fn changed(hash: &str) -> Event {
        let hash = hash.to_owned();
        record(Kind::CatalogChanged { hash, tools: 1, bytes: 1, added: 1, removed: 0 })
    }

    fn built(hash: &str) -> Event {
        let catalog_hash = hash.to_owned();
        record(Kind::IndexPublished { hash: "x".into(), catalog_hash, tools: 1, bytes: 1 })
    }

    #[test]
    fn the_index_is_fresh_when_built_from_the_last_catalog() {
        assert_eq!(index(&[], false).level, Level::Warn);
        assert_eq!(index(&[changed("a"), built("a")], true).level, Level::Ok);
        assert_eq!(index(&[changed("a"), built("a"), changed("b")], true).level, Level::Warn);
        assert_eq!(index(&[changed("a"), built("a")], false).level, Level::Warn);
        assert_eq!(index(&[changed("a")], true).level, Level::Warn);
    }

    #[test]
    fn the_log_says_its_size_its_age_and_what_is_wrong() {
        let mut config = Config::defaults(&mws_config::Places::default());
        let events = [changed("a"), built("a")];
        let found = size(&events, 3 << 20, &config);
        let text = "2 events since 1970-01-01, 3.0 MiB of at most 256.0 MiB, kept 400 days";
        assert_eq!((found.level, found.text.as_str()), (Level::Ok, text));
        assert_eq!(size(&events, 257 << 20, &config).level, Level::Warn);
        config.retention.days = Some(7);
        assert_eq!(size(&events, 0, &config).level, Level::Fail);
        let tmp = tempfile::tempdir().expect("a directory");
        let state = StateDir::at(tmp.path());
        let line = |n| {
            format!(
                r#"{{"ts":"2026-03-01T00:00:00Z","tool":"a","ok":true,"id":"18bcfe56800abcdef.{n}"}}"#
            ) + "\n"
        };
        let mut appender = mws_state::Appender::open(&state).expect("opened");
        for n in [4, 7] {
            appender.append(line(n).as_bytes(), mws_state::now()).expect("appended");
        }
        config.retention.days = None;
        assert!(log(&state, &config)[1].text.starts_with("2 events are missing"));
    }

    #[test]
    fn names_are_read_from_both_forms_and_damage_is_said() {
        let tmp = tempfile::tempdir().expect("a directory");
        let path = tmp.path().join("f.json");
        let read = |text: &str| {
            mws_state::publish(&path, text.as_bytes()).expect("written");
            names(&path)
        };
        assert_eq!(read(r#"{"tools":["a",{"name":"b"}]}"#), Ok(vec!["a".into(), "b".into()]));
        assert!(read("{").is_err_and(|why| why.starts_with("damaged")));
        assert!(read("[]").is_err_and(|why| why.starts_with("damaged")));
    }

    #[test]
    fn a_pin_that_is_no_tool_is_warned_about() {
        let tmp = tempfile::tempdir().expect("a directory");
        let state = StateDir::at(tmp.path());
        mws_state::publish(&state.catalog(), br#"{"tools":[{"name":"mail_send"}]}"#)
            .expect("written");
        let mut config = Config::defaults(&mws_config::Places::default());
        config.pins = vec!["mail_send".into(), "mail_sent".into()];
        let findings = catalog(&state, &config);
        assert_eq!(findings.len(), 2);
        assert_eq!(findings[1].hint.as_deref(), Some("did you mean 'mail_send'?"));
    }
}
