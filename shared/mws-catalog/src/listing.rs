//! A tool as the proxy lists it.
//!
//! Invariant: apart from the slimmed schema and one added `_meta` key, the bytes are the upstream's.
//! Deliberately absent: which tools are listed; the working set says that.

use crate::json::{self, Member};
use crate::{Tool, slim};

/// The key by which clients that hide MCP tools behind a search of their own keep one loaded.
const ALWAYS_LOAD: &str = "anthropic/alwaysLoad";

/// The longest tool name that clients pass on to a model, in characters.
const CLIENT_NAME_LIMIT: usize = 64;

/// The tools that the proxy adds. A tool of the upstream with such a name is not listed.
pub const META_TOOLS: [&str; 2] = ["search_tools", "call_tool"];

/// What is changed in a listed tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListingOptions {
    /// Slim the input schema without loss.
    pub slim: bool,
    /// Add `_meta["anthropic/alwaysLoad"]: true` where the upstream has not set that key.
    pub always_load: bool,
}

impl Tool {
    /// The definition as listed, in the upstream's key order.
    pub fn listed(&self, options: &ListingOptions) -> String {
        let raw = self.raw();
        let mut edits = Vec::new();
        if let Some(schema) = self.input_schema().filter(|_| options.slim) {
            edits.push((json::offset(raw, schema), schema.len(), slim(schema)));
        }
        if options.always_load {
            edits.extend(always_load(raw));
        }
        edits.sort_by_key(|edit| edit.0);
        let mut listed = String::with_capacity(raw.len() + 48);
        let mut done = 0;
        for (start, length, text) in edits {
            listed.push_str(raw.get(done..start).unwrap_or_default());
            listed.push_str(&text);
            done = start + length;
        }
        listed.push_str(raw.get(done..).unwrap_or_default());
        listed
    }
}

/// Why clients may not take this tool as it is, if they may not.
pub fn client_problem(tool: &Tool, server_name: &str) -> Option<String> {
    let name = tool.name();
    let full = format!("mcp__{server_name}__{name}").chars().count();
    if full > CLIENT_NAME_LIMIT {
        return Some(format!(
            "its name has {full} characters with the client's prefix, more than {CLIENT_NAME_LIMIT}"
        ));
    }
    let odd = |c: &char| !(c.is_ascii_alphanumeric() || *c == '_' || *c == '-');
    if let Some(c) = name.chars().find(odd) {
        return Some(format!("its name holds {c:?}; clients take A-Z a-z 0-9 _ - only"));
    }
    let members = tool.input_schema().and_then(json::members).unwrap_or_default();
    let combined = |m: &&Member<'_>| matches!(m.key.as_ref(), "anyOf" | "oneOf" | "allOf");
    members
        .iter()
        .find(combined)
        .map(|m| format!("its input schema has {} at the top, which models' APIs refuse", m.key))
}

/// The edit (start, length, text) that adds the key, if one is needed.
fn always_load(raw: &str) -> Option<(usize, usize, String)> {
    let members = json::members(raw)?;
    let pair = format!("\"{ALWAYS_LOAD}\":true");
    let Some(meta) = json::get(&members, "_meta") else {
        return insertion(raw, members.is_empty(), &format!("\"_meta\":{{{pair}}}"));
    };
    if meta == "null" {
        return Some((json::offset(raw, meta), meta.len(), format!("{{{pair}}}")));
    }
    let keys = json::members(meta)?;
    if keys.iter().any(|member| member.key == ALWAYS_LOAD) {
        return None;
    }
    let (at, length, text) = insertion(meta, keys.is_empty(), &pair)?;
    Some((json::offset(raw, meta) + at, length, text))
}

/// Puts a member behind the last one of an object.
fn insertion(object: &str, empty: bool, member: &str) -> Option<(usize, usize, String)> {
    let brace = object.rfind('}')?;
    let end = object.get(..brace)?.trim_end().len();
    Some((end, 0, format!("{}{member}", if empty { "" } else { "," })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalog;

    fn tool(text: &str) -> Tool {
        let text = format!("{{\"tools\":[{text}]}}");
        Catalog::parse(text.as_bytes()).unwrap().0.tools()[0].clone()
    }

    const ALL: ListingOptions = ListingOptions { slim: true, always_load: true };

    #[test]
    fn only_the_named_places_change() {
        let listed = tool(
            r#"{ "x":1.0, "inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object"}, "name":"a" , "title":"A" }"#,
        )
        .listed(&ALL);
        let want = r#"{ "x":1.0, "inputSchema":{"type":"object"}, "name":"a" , "title":"A","_meta":{"anthropic/alwaysLoad":true} }"#;
        assert_eq!(listed, want);
    }

    #[test]
    fn nothing_asked_nothing_changed() {
        let text = r#"{"name":"a","inputSchema":{"title":"x","$schema":"y"},"_meta":{ }}"#;
        let none = ListingOptions { slim: false, always_load: false };
        assert_eq!(tool(text).listed(&none), text);
    }

    #[test]
    fn meta_keys_of_the_upstream_stay() {
        for (meta, want) in [
            (r#"{"k":[1, 2]}"#, r#"{"k":[1, 2],"anthropic/alwaysLoad":true}"#),
            ("{ }", r#"{"anthropic/alwaysLoad":true }"#),
            ("null", r#"{"anthropic/alwaysLoad":true}"#),
            (r#"{"anthropic/alwaysLoad":false}"#, r#"{"anthropic/alwaysLoad":false}"#),
            ("7", "7"),
        ] {
            let listed = tool(&format!(r#"{{"_meta":{meta},"name":"a"}}"#)).listed(&ALL);
            assert_eq!(listed, format!(r#"{{"_meta":{want},"name":"a"}}"#));
        }
    }

    #[test]
    fn problems_are_named() {
        let problem = |text: &str| client_problem(&tool(text), "toolbox");
        assert_eq!(problem(r#"{"name":"ok-Name_1","inputSchema":{"type":"object"}}"#), None);
        assert!(problem(r#"{"name":"a.b"}"#).unwrap().contains("'.'"));
        assert!(problem(r#"{"name":"a","inputSchema":{"oneOf":[]}}"#).unwrap().contains("oneOf"));
        let name = |n: usize| format!(r#"{{"name":"{}"}}"#, "x".repeat(n));
        assert_eq!(problem(&name(50)), None);
        assert!(problem(&name(51)).unwrap().contains("65 characters"));
    }
}
