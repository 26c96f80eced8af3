//! One tool definition.
//!
//! Invariant: `raw` is the text the upstream sent; the other fields were read from it once.
//! Deliberately absent: setters. A changed tool is another tool.

use std::ops::Range;

use serde_json::value::RawValue;
use xxhash_rust::xxh3::Xxh3;

use crate::json;

/// The longest tool name kept, in characters.
const NAME_LIMIT: usize = 256;

/// A tool as the upstream listed it.
#[derive(Clone, Debug)]
pub struct Tool {
    raw: Box<RawValue>,
    name: String,
    description: String,
    schema: Option<Range<usize>>,
    hash: u64,
}

impl Tool {
    /// Reads name, description and schema out of one definition.
    ///
    /// # Errors
    /// The reason why this definition cannot be used: it is no object, or has no usable name.
    pub fn new(raw: Box<RawValue>) -> Result<Self, String> {
        let text = raw.get();
        let members = json::members(text).ok_or("the definition is no object")?;
        let name = json::get(&members, "name").ok_or("it has no name")?;
        let name = json::string(name).ok_or("its name is no string")?;
        check_name(&name)?;
        let name = name.into_owned();
        let description = json::get(&members, "description").and_then(json::string);
        let description = description.unwrap_or_default().into_owned();
        let schema = json::get(&members, "inputSchema").filter(|schema| schema.starts_with('{'));
        let schema = schema.map(|schema| {
            let start = json::offset(text, schema);
            start..start + schema.len()
        });
        let parts = ["name", "description", "inputSchema", "annotations"];
        let hash = hash_parts(parts.map(|part| json::get(&members, part).unwrap_or("null")));
        Ok(Self { name, description, schema, hash, raw })
    }

    /// The definition, byte for byte as sent.
    pub fn raw(&self) -> &str {
        self.raw.get()
    }

    /// The name, decoded.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The description, decoded; empty when absent, null or no string.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The input schema as sent; `None` when it is absent or no object.
    pub fn input_schema(&self) -> Option<&str> {
        self.schema.clone().and_then(|range| self.raw.get().get(range))
    }

    /// xxh3 of name, description, input schema and annotations: what a model is told about the tool.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

fn check_name(name: &str) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err("its name is empty".to_owned());
    }
    let length = name.chars().count();
    if length > NAME_LIMIT {
        return Err(format!("its name has {length} characters, more than {NAME_LIMIT}"));
    }
    match name.chars().find(|&c| c.is_control() || is_format(c)) {
        Some(c) => Err(format!("its name holds the invisible character U+{:04X}", c as u32)),
        None => Ok(()),
    }
}

/// Unicode format characters (Cf) and the line and paragraph separators: invisible in a name, so
/// two names could look the same.
fn is_format(c: char) -> bool {
    matches!(c as u32,
        0xAD | 0x600..=0x605 | 0x61C | 0x6DD | 0x70F | 0x890..=0x891 | 0x8E2 | 0x180E
        | 0x200B..=0x200F | 0x2028..=0x202E | 0x2060..=0x206F | 0xFEFF | 0xFFF9..=0xFFFB
        | 0x110BD | 0x110CD | 0x13430..=0x1343F | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A
        | 0xE0000..=0xE007F)
}

fn hash_parts<const N: usize>(parts: [&str; N]) -> u64 {
    let mut hasher = Xxh3::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(text: &str) -> Result<Tool, String> {
        Tool::new(RawValue::from_string(text.to_owned()).unwrap())
    }

    #[test]
    fn reads_beside_the_raw_text() {
        let text = r#"{ "inputSchema": {"b":1.0,"a":2}, "name":"n\u0061me","description":"a\ud800b","x":[]}"#;
        let tool = tool(text).unwrap();
        assert_eq!(tool.raw(), text);
        assert_eq!(tool.name(), "name");
        assert!(tool.description().starts_with('a') && tool.description().ends_with('b'));
        assert_eq!(tool.input_schema(), Some(r#"{"b":1.0,"a":2}"#));
    }

    #[test]
    fn tolerates_missing_parts() {
        let tool = tool(r#"{"name":"a","description":null,"inputSchema":[1]}"#).unwrap();
        assert_eq!((tool.description(), tool.input_schema()), ("", None));
    }

    #[test]
    fn unusable_names_are_refused_with_a_reason() {
        let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(257));
        for (text, reason) in [
            ("[1]", "no object"),
            (r#"{"title":"a"}"#, "no name"),
            (r#"{"name":7}"#, "no string"),
            (r#"{"name":" "}"#, "empty"),
            (r#"{"name":"a\u0000b"}"#, "U+0000"),
            (r#"{"name":"a\u200bb"}"#, "U+200B"),
            (long.as_str(), "257 characters"),
        ] {
            let error = tool(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn hash_follows_what_the_model_is_told() {
        let base = tool(r#"{"name":"a","description":"d","inputSchema":{}}"#).unwrap().hash();
        let same = tool(r#"{"inputSchema":{},"_meta":{},"name":"a","description":"d"}"#).unwrap();
        let other = tool(r#"{"name":"a","description":"e","inputSchema":{}}"#).unwrap();
        assert_eq!(base, same.hash());
        assert_ne!(base, other.hash());
    }
}
