//! The definitions of listed tools: which one is accepted, and that one changed.
//!
//! Invariant: a definition holds from the run that first lists its tool. That is noted in the log,
//! so what is decided later follows from the log.
//! Deliberately absent: refusing calls. The proxy does that, from the hashes in the artifact.

use mws_cli::{Failure, sanitize};
use mws_config::OnChange;
use mws_event::{Event, Kind, Record};
use mws_policy::{Decision, Definitions, Log, Offers, Verdict};
use mws_state::{Appender, StateDir};

/// Accepts the present definitions of these tools, in the log on disk and in `log`.
pub(crate) fn accept(
    tools: &[String],
    log: &mut Log,
    offers: Option<&Offers>,
    state: &StateDir,
) -> Result<(), Failure> {
    let mut kinds = Vec::new();
    for tool in tools {
        let Some(offer) = offers.and_then(|offers| offers.get(tool)) else {
            return Err(Failure::usage(format!("--accept {tool}: the catalog has no such tool")));
        };
        kinds.push(Kind::DefinitionPinned { tool: tool.clone(), hash: offer.hash.clone() });
    }
    append(kinds, state)?.iter().for_each(|event| log.push(event));
    Ok(())
}

/// Warns of each listed or held tool whose definition is not the accepted one.
pub(crate) fn say_changes(decisions: &[Decision], known: &Definitions, on_change: OnChange) {
    let then = match on_change {
        OnChange::Warn => "the new one is listed",
        OnChange::Unlist => "it is not listed",
        OnChange::Block => "it is neither listed nor called",
    };
    for (d, _) in changed(decisions) {
        let since = known.pinned_at(&d.tool).map(|ts| ts.date()).unwrap_or_default();
        let tool = sanitize(&d.tool);
        let hint = match on_change {
            OnChange::Warn => String::new(),
            _ => format!("; look at it, then: mws promote --accept {tool}"),
        };
        tracing::warn!("The definition of {tool}, accepted {since}, has changed; {then}{hint}.");
    }
}

/// Notes in the log which definitions hold from now on, and which changed.
pub(crate) fn note(
    decisions: &[Decision],
    known: &Definitions,
    on_change: OnChange,
    state: &StateDir,
) -> Result<(), Failure> {
    let mut kinds = Vec::new();
    for (d, to) in changed(decisions) {
        if !known.is_told(&d.tool, to) {
            let pinned = known.pinned(&d.tool).unwrap_or_default().to_owned();
            let (tool, hash) = (d.tool.clone(), to.to_owned());
            kinds.push(Kind::DefinitionChanged { tool, hash, pinned });
        }
    }
    for d in decisions.iter().filter(|d| d.verdict.is_listed()) {
        let holds = known.pinned(&d.tool).is_none() || on_change == OnChange::Warn;
        if let Some(hash) = d.hash.as_ref().filter(|hash| known.pinned(&d.tool) != Some(hash))
            && holds
        {
            kinds.push(Kind::DefinitionPinned { tool: d.tool.clone(), hash: hash.clone() });
        }
    }
    append(kinds, state).map(|_| ())
}

/// Tools that are, or would be, listed, with the hash that their definition has now.
fn changed(decisions: &[Decision]) -> impl Iterator<Item = (&Decision, &str)> {
    let concerned = |d: &&Decision| d.verdict.is_listed() || d.verdict == Verdict::Changed;
    decisions.iter().filter(concerned).filter_map(|d| Some((d, d.changed_to.as_deref()?)))
}

/// Appends these to the log.
pub(crate) fn append(kinds: Vec<Kind>, state: &StateDir) -> Result<Vec<Event>, Failure> {
    if kinds.is_empty() {
        return Ok(Vec::new());
    }
    let now = mws_state::now();
    let mut ids = mws_state::writer_id();
    let event = |kind| {
        let mut event = Event::Record(Record::new(now, kind));
        event.set_id(|| ids.next_id());
        event
    };
    let events: Vec<Event> = kinds.into_iter().map(event).collect();
    let write = || {
        let mut log = Appender::open(state)?;
        for event in &events {
            log.append(&event.to_line(), now)?;
        }
        log.sync()
    };
    write().map_err(|e| Failure::failed(format!("cannot note the definitions in the log: {e}")))?;
    Ok(events)
}
