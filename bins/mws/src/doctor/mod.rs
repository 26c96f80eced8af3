//! `mws doctor`: what works, what does not, and what to do about it.
//!
//! Invariant: exit 0 means that nothing has failed; a warning is no failure.
//! Deliberately absent: mending. Each finding names the command that mends it.

mod files;
mod ingest;
mod places;

use std::io;

use mws_cli::{Common, Exit, Failure, Output, Style, paint, sanitize};
use mws_config::{Config, UpstreamKind};
use mws_state::StateDir;

use crate::check;

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Ok,
    Warn,
    Fail,
}

/// One line of the report, and what to do.
#[derive(Debug)]
struct Finding {
    level: Level,
    what: &'static str,
    text: String,
    hint: Option<String>,
}

impl Finding {
    fn new(level: Level, what: &'static str, text: impl Into<String>) -> Self {
        Self { level, what, text: text.into(), hint: None }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

/// Runs all checks; those that need a configuration only when there is a valid one.
pub(crate) fn run(common: &Common) -> Result<Exit, Failure> {
    common.start_logging();
    let mut report = Report { out: Output::stdout(), color: common.color, failed: false };
    match common.load_config() {
        Err(e) => {
            let hint = "correct the file, or write a new one with `mws --config FILE init`";
            report.add(&Finding::new(Level::Fail, "config", e.to_string()).hint(hint))?;
        }
        Ok(loaded) => {
            report.all(&places::config(&loaded))?;
            let state = StateDir::at(&loaded.config.state_dir);
            report.add(&places::state(&state))?;
            report.add(&upstream(&loaded.config, common))?;
            report.all(&places::transcripts(&loaded.config))?;
            report.all(&ingest::stats(common))?;
            report.all(&files::log(&state, &loaded.config))?;
            report.all(&files::catalog(&state, &loaded.config))?;
            report.add(&files::working_set(&state))?;
        }
    }
    report.out.finish()?;
    Ok(if report.failed { Exit::Bad } else { Exit::Done })
}

struct Report {
    out: Output,
    color: mws_cli::ColorWhen,
    failed: bool,
}

impl Report {
    fn all(&mut self, findings: &[Finding]) -> io::Result<()> {
        findings.iter().try_for_each(|finding| self.add(finding))
    }

    fn add(&mut self, finding: &Finding) -> io::Result<()> {
        let (word, style) = match finding.level {
            Level::Ok => ("ok  ", Style::Green),
            Level::Warn => ("warn", Style::Yellow),
            Level::Fail => ("fail", Style::Red),
        };
        self.failed |= finding.level == Level::Fail;
        let word = paint(word, style, self.color.is_on(&io::stdout()));
        self.out.line(format_args!("{word}  {:<12} {}", finding.what, sanitize(&finding.text)))?;
        match &finding.hint {
            Some(hint) => self.out.line(format_args!("      {:<12} → {}", "", sanitize(hint))),
            None => Ok(()),
        }
    }
}

/// Asks the proxy to connect; that also refreshes the catalog for the checks that follow.
fn upstream(config: &Config, common: &Common) -> Finding {
    let (name, hint) = match &config.upstream.kind {
        UpstreamKind::Http { url, .. } => {
            // Behind the question mark there may be a key.
            let place = url.split('?').next().unwrap_or_default();
            (place.to_owned(), "start that server, or change `upstream.url`")
        }
        UpstreamKind::Command { command, .. } => {
            (command.clone(), "try that command in a shell, or change `upstream.command`")
        }
    };
    match check::upstream(&crate::flags(common)) {
        Ok(answer) => {
            let check::Answer { protocol, tools, ms, .. } = answer;
            let text = format!("{name}: {tools} tools, protocol {protocol}, {ms} ms");
            Finding::new(Level::Ok, "upstream", text)
        }
        Err(why) => Finding::new(Level::Fail, "upstream", format!("{name}: {why}")).hint(hint),
    }
}
