//! What a stateless request must carry where the proxy answers itself, or nobody behind it will look.
//!
//! Invariant: the version is one that is served here; header and body agree wherever it goes.
//! Deliberately absent: the parameters of a method, but for the answers that any of them may carry.

use hyper::HeaderMap;
use mws_catalog::json;

use crate::bridge::VERSIONS;
use crate::caller::{Caller, PROTOCOL_VERSION};
use crate::edit::quote;
use crate::headers;
use crate::reply::{self, Reply};
use crate::rpc::{self, Era, META_CAPABILITIES, META_LOG_LEVEL, META_VERSION, MODERN, Message};
use crate::severity::Severity;

/// The refusal of a request that a stateless server would refuse.
pub(crate) fn refusal(message: &Message<'_>, caller: &Caller) -> Option<Reply> {
    if caller.era == Era::Session {
        return None;
    }
    let refuse = |code, why: &str| reply::json(400, rpc::error(message.id, code, why));
    let meta = message.meta();
    let version = json::get(&meta, META_VERSION).and_then(json::string);
    let Some(version) = version else {
        return Some(refuse(rpc::INVALID_PARAMS, &format!("_meta lacks {META_VERSION}")));
    };
    if version != MODERN {
        return Some(reply::json(400, unsupported(message.id, &version)));
    }
    if json::get(&meta, META_CAPABILITIES).and_then(json::members).is_none() {
        return Some(refuse(rpc::INVALID_PARAMS, &format!("_meta lacks {META_CAPABILITIES}")));
    }
    let level = json::get(&meta, META_LOG_LEVEL);
    if level.is_some_and(|level| Severity::parse(level).is_none()) {
        return Some(refuse(rpc::INVALID_PARAMS, &format!("{META_LOG_LEVEL} is no log level")));
    }
    answers(message).err().map(|why| refuse(rpc::INVALID_PARAMS, why))
}

fn unsupported(id: Option<&str>, requested: &str) -> String {
    let (id, requested) = (id.unwrap_or("null"), quote(requested));
    let supported = VERSIONS.map(quote).join(",");
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":-32022,\
         \"message\":\"Unsupported protocol version\",\
         \"data\":{{\"supported\":[{supported}],\"requested\":{requested}}}}}}}"
    )
}

/// A stateless message must have mirror headers that agree with its body: whoever stands between
/// decides by them. What the body lacks, or a version that is not served, is refused by whoever
/// answers it.
pub(crate) fn mirrors(
    headers: &HeaderMap,
    message: &Message<'_>,
    caller: &Caller,
) -> Result<(), String> {
    if caller.era == Era::Session || message.method.is_none() {
        return Ok(());
    }
    let params = message.params();
    let version = json::get(&message.meta(), META_VERSION).and_then(json::string);
    let method = message.method.as_deref();
    let named = match method {
        Some("tools/call" | "prompts/get") => json::get(params, "name"),
        Some("resources/read") => json::get(params, "uri"),
        _ => None,
    };
    mirrored(headers, headers::METHOD, method)?;
    if version.as_deref() == Some(MODERN) {
        mirrored(headers, PROTOCOL_VERSION, Some(MODERN))?;
    }
    match named.and_then(json::string) {
        Some(named) => mirrored(headers, headers::NAME, Some(&named)),
        None => Ok(()),
    }
}

fn mirrored(headers: &HeaderMap, name: &str, body: Option<&str>) -> Result<(), String> {
    let header = headers::text(headers, name);
    match header.and_then(headers::decoded) {
        None => Err(format!("the header {name} is missing")),
        Some(header) if Some(header.as_str()) != body => {
            Err(format!("the header {name} does not agree with the body"))
        }
        Some(_) => Ok(()),
    }
}

/// What a client says when it was asked something has a form, whoever asked.
fn answers(message: &Message<'_>) -> Result<(), &'static str> {
    let params = message.params();
    let objects = |text: &str| {
        json::members(text)
            .is_some_and(|all| all.iter().all(|one| json::members(one.value).is_some()))
    };
    if json::get(params, "inputResponses").is_some_and(|text| !objects(text)) {
        return Err("inputResponses must be an object of objects");
    }
    if json::get(params, "requestState").is_some_and(|text| json::string(text).is_none()) {
        return Err("requestState must be a string");
    }
    Ok(())
}
