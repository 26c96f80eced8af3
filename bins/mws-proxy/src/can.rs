//! What a client can be asked, by the capabilities that it declared.
//!
//! Invariant: a client is asked only what it said it answers; one that names no mode of elicitation
//! is of before the modes and has forms alone.
//! Deliberately absent: asking it; see [`crate::session_bridge`] and [`crate::crossing`].

use mws_catalog::json;

use crate::edit::Object;
use crate::rpc::Message;

/// The capabilities by which a client lets itself be asked.
const ASKED: [&str; 3] = ["elicitation", "sampling", "roots"];

/// Those of a client, as JSON text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Can(Vec<(&'static str, String)>);

impl Can {
    /// Reads them from among all capabilities of the client.
    pub(crate) fn of(capabilities: Option<&str>) -> Self {
        let all = Object::of(capabilities);
        let declared = |name| all.get(name).filter(|value| json::members(value).is_some());
        let named = ASKED.into_iter();
        Self(named.filter_map(|name| Some((name, declared(name)?.to_owned()))).collect())
    }

    /// Reads them from the client's `initialize`.
    pub(crate) fn of_initialize(message: &Message<'_>) -> Self {
        Self::of(json::get(message.params(), "capabilities"))
    }

    /// True for a client that can be asked nothing.
    pub(crate) fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// As an object of capabilities.
    pub(crate) fn to_json(&self) -> String {
        let mut all = Object::of(None);
        for (name, value) in &self.0 {
            all.set(name, value.clone());
        }
        all.to_json()
    }

    /// Whether the client declared that it answers this.
    ///
    /// # Errors
    /// What it does not answer and why, in words.
    pub(crate) fn answers(&self, method: &str, params: Option<&str>) -> Result<(), String> {
        let (name, mode) = match method {
            "elicitation/create" => ("elicitation", Some(mode(params))),
            "sampling/createMessage" => ("sampling", None),
            "roots/list" => ("roots", None),
            _ => return Err(format!("{method:?}, which is not known")),
        };
        let lacks = |what: &str| Err(format!("{what}, which this client does not offer"));
        let declared = self.0.iter().find(|(own, _)| *own == name);
        match mode {
            Some(mode) if declared.is_none_or(|(_, value)| !has_mode(value, &mode)) => {
                lacks(&format!("elicitation by {}", if mode == "url" { "URL" } else { &mode }))
            }
            None if declared.is_none() => lacks(name),
            _ => Ok(()),
        }
    }
}

/// The mode of an elicitation.
pub(crate) fn mode(params: Option<&str>) -> String {
    let mode = Object::of(params).get("mode").and_then(json::string).map(|mode| mode.into_owned());
    mode.unwrap_or_else(|| "form".to_owned())
}

fn has_mode(elicitation: &str, mode: &str) -> bool {
    let modes = Object::of(Some(elicitation));
    let has = |mode| modes.get(mode).is_some_and(|value| value != "null");
    has(mode) || (mode == "form" && !has("url"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_asked_only_what_it_declared() {
        let can = |text: &str| Can::of(Some(text));
        let (form, url) = (Some(r#"{"mode":"form"}"#), Some(r#"{"mode":"url"}"#));
        for (capabilities, method, params, want) in [
            (r#"{"elicitation":{}}"#, "elicitation/create", None, true),
            (r#"{"elicitation":{}}"#, "elicitation/create", form, true),
            (r#"{"elicitation":{}}"#, "elicitation/create", url, false),
            (r#"{"elicitation":{"x-vendor":{}}}"#, "elicitation/create", None, true),
            (r#"{"elicitation":{"url":{}}}"#, "elicitation/create", url, true),
            (r#"{"elicitation":{"url":{}}}"#, "elicitation/create", form, false),
            (r#"{"elicitation":{"url":{}}}"#, "elicitation/create", None, false),
            (r#"{"elicitation":{"url":null}}"#, "elicitation/create", url, false),
            (r#"{"elicitation":{"url":{},"form":{}}}"#, "elicitation/create", None, true),
            (r#"{"elicitation":null}"#, "elicitation/create", None, false),
            (r#"{"sampling":{}}"#, "sampling/createMessage", None, true),
            (r#"{"sampling":{}}"#, "roots/list", None, false),
            (r#"{"roots":{}}"#, "roots/list", None, true),
            (r#"{"roots":{}}"#, "tasks/get", None, false),
        ] {
            let got = can(capabilities).answers(method, params);
            assert_eq!(got.is_ok(), want, "{capabilities} {method} {params:?}");
        }
        let lacks = can("{}").answers("elicitation/create", url);
        assert!(lacks.is_err_and(|why| why.contains("elicitation by URL, which")));
    }

    #[test]
    fn only_what_concerns_a_server_is_read() {
        let can = Can::of(Some(r#"{"tasks":{},"roots":{ },"sampling":null}"#));
        assert_eq!(can.to_json(), r#"{"roots":{ }}"#);
        assert!(!can.is_nothing() && Can::of(Some(r#"{"tasks":{}}"#)).is_nothing());
    }
}
