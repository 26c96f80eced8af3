//! What a stateless request must carry when nobody behind the proxy will look.
//!
//! Invariant: header and body agree, and the version is one that is served here.
//! Deliberately absent: the parameters of a method.

use hyper::HeaderMap;
use mws_catalog::json;

use crate::bridge::VERSIONS;
use crate::caller::Caller;
use crate::edit::quote;
use crate::headers::mirrors;
use crate::reply::{self, Reply};
use crate::rpc::{self, META_CAPABILITIES, META_LOG_LEVEL, META_VERSION, MODERN, Message};
use crate::severity::Severity;

/// The refusal of a request that a stateless server would refuse.
pub(super) fn check(headers: &HeaderMap, message: &Message<'_>, caller: &Caller) -> Option<Reply> {
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
    mirrors(headers, message, caller).err().map(|why| refuse(rpc::HEADER_MISMATCH, &why))
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
