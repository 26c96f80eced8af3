//! The two meta-tools: their definitions and the reading of their arguments.
//!
//! Invariant: their text is ours alone, never the upstream's; bad arguments are answered with a tool
//! result, since clients take a JSON-RPC error for a broken server.
//! Deliberately absent: ranking and forwarding.

use mws_catalog::{META_TOOLS, json};

use crate::edit::Edits;

const SEARCH_TOOLS: &str = r#"{"name":"search_tools","description":"Find a tool for a task among all tools of this server; most are not listed. Returns the best matches with input schemas. Query by task (\"share a file\"), exact tool name, or backend; empty lists everything by name. Run a match with call_tool.","inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"What the tool should do, a tool name, or a backend"}}},"annotations":{"title":"Search tools","readOnlyHint":true,"openWorldHint":false}"#;

const CALL_TOOL: &str = r#"{"name":"call_tool","description":"Run any tool of this server by its exact name, listed or not. Get name and input schema from search_tools.","inputSchema":{"type":"object","properties":{"name":{"type":"string","description":"Exact tool name"},"arguments":{"type":"object","description":"Arguments as the tool's input schema asks"}},"required":["name"]},"annotations":{"title":"Call a tool"}"#;

const ALWAYS_LOAD: &str = r#","_meta":{"anthropic/alwaysLoad":true}"#;

/// The definitions, as JSON texts.
pub(crate) fn definitions(always_load: bool) -> Vec<String> {
    let hint = if always_load { ALWAYS_LOAD } else { "" };
    [SEARCH_TOOLS, CALL_TOOL].map(|head| format!("{head}{hint}}}")).into()
}

/// True for a name that means a meta-tool.
pub(crate) fn is_meta(name: &str) -> bool {
    META_TOOLS.contains(&name)
}

/// The query in the arguments of `search_tools`; empty when there is none.
///
/// # Errors
/// What is wrong with the arguments, for the model to read.
pub(crate) fn query(arguments: Option<&str>) -> Result<String, String> {
    let Some(arguments) = arguments.filter(|a| *a != "null") else { return Ok(String::new()) };
    let members =
        json::members(arguments).ok_or("arguments must be an object {\"query\": \"…\"}")?;
    match json::get(&members, "query") {
        None | Some("null") => Ok(String::new()),
        Some(query) => json::string(query)
            .map(std::borrow::Cow::into_owned)
            .ok_or_else(|| "query must be a string".to_owned()),
    }
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

/// The arguments with every string that holds an object or array turned into it, where the schema
/// asks for that type alone; models write them so. Nothing else is touched.
pub(crate) fn coerced(arguments: &str, schema: &str) -> String {
    let schema = json::members(schema).unwrap_or_default();
    let properties = json::get(&schema, "properties").and_then(json::members).unwrap_or_default();
    let members = json::members(arguments).unwrap_or_default();
    let mut edits = Edits::of(arguments);
    for member in members {
        let wanted = json::get(&properties, &member.key).and_then(json::members);
        let wanted = wanted.and_then(|w| json::get(&w, "type").and_then(json::string));
        let text = json::string(member.value).map(|text| text.trim().to_owned());
        let fits = |text: &String| match wanted.as_deref() {
            Some("object") => json::members(text).is_some(),
            Some("array") => json::elements(text).is_some(),
            _ => false,
        };
        if let Some(text) = text.filter(fits) {
            edits.replace(member.value, text);
        }
    }
    edits.apply()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_are_valid_tools() {
        for always_load in [false, true] {
            let list = format!("{{\"tools\":[{}]}}", definitions(always_load).join(","));
            let (catalog, rejected) = mws_catalog::Catalog::parse(list.as_bytes()).expect("a list");
            let names: Vec<_> = catalog.tools().iter().map(mws_catalog::Tool::name).collect();
            assert_eq!((names.as_slice(), rejected.len()), (&META_TOOLS[..], 0));
            assert_eq!(list.matches("alwaysLoad").count(), if always_load { 2 } else { 0 });
        }
    }

    #[test]
    fn a_query_may_be_absent_but_must_be_text() {
        for (arguments, want) in [
            (None, Ok("")),
            (Some("null"), Ok("")),
            (Some("{}"), Ok("")),
            (Some(r#"{"query":null}"#), Ok("")),
            (Some(r#"{"query":"share a file"}"#), Ok("share a file")),
        ] {
            assert_eq!(query(arguments).as_deref(), want);
        }
        assert!(query(Some(r#"{"query":1}"#)).is_err());
        assert!(query(Some("[]")).is_err());
    }

    #[test]
    fn a_string_becomes_an_object_or_array_only_where_the_schema_asks_for_one() {
        let schema = r#"{"properties":{"o":{"type":"object"},"a":{"type":"array"},"s":{"type":"string"},"u":{"type":["object","string"]}}}"#;
        for (arguments, want) in [
            (r#"{"o":"{\"x\": 1.10}","a":"[1]"}"#, r#"{"o":{"x": 1.10},"a":[1]}"#),
            (r#"{"s":"{}","u":"{}","free":"{}"}"#, r#"{"s":"{}","u":"{}","free":"{}"}"#),
            (
                r#"{"o":"not an object","a":"{}","o2": 1}"#,
                r#"{"o":"not an object","a":"{}","o2": 1}"#,
            ),
            (r#"{"o":{"y":2},"a":[ ]}"#, r#"{"o":{"y":2},"a":[ ]}"#),
        ] {
            assert_eq!(coerced(arguments, schema), want);
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
