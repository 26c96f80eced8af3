//! The two meta-tools: their definitions and the reading of their arguments.
//!
//! Invariant: their text is ours alone, never the upstream's; bad arguments are answered with a tool
//! result, since clients take a JSON-RPC error for a broken server.
//! Deliberately absent: ranking and forwarding, and the arguments of `search_tools` ([`crate::asked`]).

use mws_catalog::{META_TOOLS, json};

use crate::edit::quote;
use crate::guide::Guide;

const SEARCH_SCHEMA: &str = r#""inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"What the tool should do, exact tool names, or a backend"},"backend":{"type":"string"},"limit":{"type":"integer"},"detail":{"enum":["brief","best","full"]}}},"annotations":{"title":"Search tools","readOnlyHint":true,"openWorldHint":false}"#;

const CALL_SCHEMA: &str = r#""inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"Exact tool name"},"arguments":{"type":"object","description":"Arguments as the tool's input schema asks"}},"required":["name"]},"annotations":{"title":"Call a tool"}"#;

const ALWAYS_LOAD: &str = r#","_meta":{"anthropic/alwaysLoad":true}"#;

/// The definitions, as JSON texts.
pub(crate) fn definitions(guide: &Guide, always_load: bool) -> Vec<String> {
    let hint = if always_load { ALWAYS_LOAD } else { "" };
    let parts = [(guide.search.as_str(), SEARCH_SCHEMA), (guide.call, CALL_SCHEMA)];
    let define = |(name, (description, schema)): (&str, (&str, &str))| {
        let description = quote(description);
        format!("{{\"name\":\"{name}\",\"description\":{description},{schema}{hint}}}")
    };
    META_TOOLS.into_iter().zip(parts).map(define).collect()
}

/// True for a name that means a meta-tool.
pub(crate) fn is_meta(name: &str) -> bool {
    META_TOOLS.contains(&name)
}

/// What a `call_tool` asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Inner {
    pub(crate) name: String,
    /// The arguments as JSON text; `None` when there are none.
    pub(crate) arguments: Option<String>,
}

/// Unwraps the arguments of `call_tool`. The inner arguments may be an object, absent, null, or an
/// object written into a string, as models sometimes do.
///
/// # Errors
/// What is wrong with the arguments, for the model to read.
pub(crate) fn inner(arguments: Option<&str>) -> Result<Inner, String> {
    const FORM: &str = "call_tool takes {\"name\": \"TOOL\", \"arguments\": {…}}";
    let members = arguments.and_then(json::members).ok_or(FORM)?;
    let name = json::get(&members, "name").and_then(json::string).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| format!("name is missing; {FORM}"))?.into_owned();
    let arguments = match json::get(&members, "arguments") {
        None | Some("null") => None,
        Some(object) if object.starts_with('{') => Some(object.to_owned()),
        Some(other) => {
            let text = json::string(other).map(|text| text.trim().to_owned());
            let text = text.filter(|text| json::members(text).is_some());
            Some(text.ok_or_else(|| format!("arguments must be an object; {FORM}"))?)
        }
    };
    Ok(Inner { name, arguments })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_valid_tools() {
        let guide =
            Guide::of(&mws_catalog::Backends::default(), &std::collections::BTreeMap::new());
        for always_load in [false, true] {
            let list = format!("{{\"tools\":[{}]}}", definitions(&guide, always_load).join(","));
            let (catalog, rejected) = mws_catalog::Catalog::parse(list.as_bytes()).expect("a list");
            let names: Vec<_> = catalog.tools().iter().map(mws_catalog::Tool::name).collect();
            assert_eq!((names.as_slice(), rejected.len()), (&META_TOOLS[..], 0));
            assert_eq!(list.matches("alwaysLoad").count(), if always_load { 2 } else { 0 });
        }
    }

    #[test]
    fn a_call_is_unwrapped_in_every_form_that_models_write() {
        for (arguments, want) in [
            (r#"{"name":"a"}"#, None),
            (r#"{"name":"a","arguments":null}"#, None),
            (r#"{"name":"a","arguments":{"n": 1.10}}"#, Some(r#"{"n": 1.10}"#)),
            (r#"{"name":"a","arguments":"{\"n\":1}"}"#, Some(r#"{"n":1}"#)),
        ] {
            let got = inner(Some(arguments)).expect("unwrapped");
            assert_eq!((got.name.as_str(), got.arguments.as_deref()), ("a", want), "{arguments}");
        }
        for bad in [None, Some("{}"), Some(r#"{"name":1}"#), Some(r#"{"name":""}"#)] {
            assert!(inner(bad).is_err());
        }
        assert!(inner(Some(r#"{"name":"a","arguments":[1]}"#)).is_err());
        assert!(inner(Some(r#"{"name":"a","arguments":"x"}"#)).is_err());
    }
}
