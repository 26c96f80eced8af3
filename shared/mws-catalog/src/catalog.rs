//! The upstream's tools, in its order.
//!
//! Invariant: names are unique, order is the upstream's, and one bad definition costs that tool
//! alone. Deliberately absent: the other keys of the file; they belong to whoever wrote it.

use std::collections::HashMap;
use std::fmt;

use serde_json::value::RawValue;
use xxhash_rust::xxh3::Xxh3;

use crate::{Tool, json};

/// All tools an upstream lists.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    tools: Vec<Tool>,
    by_name: HashMap<String, usize>,
}

/// A definition that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Its place in the upstream's list, from 0.
    pub index: usize,
    /// Why, in words.
    pub reason: String,
}

/// The text is no catalog at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogError(String);

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CatalogError {}

impl Catalog {
    /// Reads an object with `tools`, such as a saved `tools/list` result.
    ///
    /// # Errors
    /// The text is not UTF-8, no JSON object, or has no array `tools`.
    pub fn parse(bytes: &[u8]) -> Result<(Self, Vec<Rejected>), CatalogError> {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let fail = |message: String| CatalogError(format!("not a tool catalog: {message}"));
        let text = std::str::from_utf8(bytes).map_err(|e| fail(e.to_string()))?;
        if !text.trim_start().starts_with('{') {
            return Err(fail("the file must hold an object with an array \"tools\"".to_owned()));
        }
        let whole: &RawValue = serde_json::from_str(text).map_err(|e| fail(e.to_string()))?;
        let members = json::members(whole.get()).unwrap_or_default();
        let tools = json::get(&members, "tools").ok_or_else(|| fail("no \"tools\"".to_owned()))?;
        let tools: Vec<Box<RawValue>> = serde_json::from_str(tools)
            .map_err(|_| fail("\"tools\" must be an array".to_owned()))?;
        Ok(Self::from_tools(tools))
    }

    /// Takes definitions in the upstream's order; of two with one name the first stays.
    pub fn from_tools(raw: Vec<Box<RawValue>>) -> (Self, Vec<Rejected>) {
        let mut catalog = Self::default();
        let mut rejected = Vec::new();
        for (index, raw) in raw.into_iter().enumerate() {
            if let Err(reason) = Tool::new(raw).and_then(|tool| catalog.add(tool)) {
                rejected.push(Rejected { index, reason });
            }
        }
        (catalog, rejected)
    }

    fn add(&mut self, tool: Tool) -> Result<(), String> {
        if self.by_name.contains_key(tool.name()) {
            return Err(format!("the name {:?} is listed twice; the first is kept", tool.name()));
        }
        self.by_name.insert(tool.name().to_owned(), self.tools.len());
        self.tools.push(tool);
        Ok(())
    }

    /// The tool of that exact name.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.position(name).and_then(|index| self.tools.get(index))
    }

    /// Where the tool of that exact name stands in [`Catalog::tools`].
    pub fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// All tools, in the upstream's order.
    pub fn tools(&self) -> &[Tool] {
        &self.tools
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// xxh3 of the raw definitions in their order: equal exactly when the list is equal in bytes.
    pub fn hash(&self) -> u64 {
        let mut hasher = Xxh3::new();
        for tool in &self.tools {
            hasher.update(&(tool.raw().len() as u64).to_le_bytes());
            hasher.update(tool.raw().as_bytes());
        }
        hasher.digest()
    }

    /// `{"tools":[…]}` with every definition byte for byte as sent, in pieces: together they may be
    /// more than one would hold twice.
    pub fn json_parts(&self) -> Vec<&[u8]> {
        let mut parts: Vec<&[u8]> = vec![b"{\"tools\":["];
        for (index, tool) in self.tools.iter().enumerate() {
            if index > 0 {
                parts.push(b",");
            }
            parts.push(tool.raw().as_bytes());
        }
        parts.push(b"]}");
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_result_round_trips_byte_for_byte() {
        let tool = r#"{ "name":"a", "n":1.0, "inputSchema":{"z":1,"a":9007199254740993} }"#;
        let text = format!("{{\"nextCursor\":null,\"tools\":[{tool}],\"ttlMs\":1}}");
        let (catalog, rejected) = Catalog::parse(text.as_bytes()).unwrap();
        assert!(rejected.is_empty());
        assert_eq!(catalog.get("a").unwrap().raw(), tool);
        let json = catalog.json_parts().concat();
        assert_eq!(json, format!("{{\"tools\":[{tool}]}}").into_bytes());
        assert_eq!(Catalog::parse(&json).unwrap().0.hash(), catalog.hash());
    }

    #[test]
    fn a_bad_definition_costs_itself_alone() {
        let text = br#"{"tools":[{"name":"a"},7,{"name":""},{"name":"a"},{"name":"b"}]}"#;
        let (catalog, rejected) = Catalog::parse(text).unwrap();
        let names: Vec<_> = catalog.tools().iter().map(Tool::name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(rejected.iter().map(|r| r.index).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(rejected[2].reason.contains("twice"));
    }

    #[test]
    fn what_is_no_catalog_is_named() {
        for (text, reason) in [
            (&b"[]"[..], "object"),
            (b"", "object"),
            (b"{\"tools\":[", "EOF"),
            (b"{\"a\":1}", "no \"tools\""),
            (b"{\"tools\":{}}", "array"),
            (b"{\"tools\":[]\xff}", "utf-8"),
        ] {
            let error = Catalog::parse(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn order_is_part_of_the_hash() {
        let one = Catalog::parse(br#"{"tools":[{"name":"a"},{"name":"b"}]}"#).unwrap().0;
        let two = Catalog::parse(br#"{"tools":[{"name":"b"},{"name":"a"}]}"#).unwrap().0;
        assert_ne!(one.hash(), two.hash());
    }
}
