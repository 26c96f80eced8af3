//! Reading `working-set.json`.
//!
//! Invariant: names and the hashes of accepted definitions only; what else the file says is for
//! people and for the report.
//! Deliberately absent: deciding. `mws-promote` does that.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// Largest artifact that is read, in bytes.
pub(crate) const MAX: u64 = 4 * 1024 * 1024;

/// The only format version there is.
const VERSION: u32 = 1;

/// What the artifact says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkingSet {
    /// The listed tools.
    pub(crate) names: BTreeSet<String>,
    /// The accepted definition of each of them, and of those kept out because theirs changed.
    pub(crate) accepted: BTreeMap<String, u64>,
    /// No tool has been promoted yet.
    pub(crate) is_cold: bool,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    v: Option<u32>,
    tools: Vec<Entry>,
    #[serde(default)]
    cold: bool,
    #[serde(default)]
    held: Vec<Tool>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Name(String),
    Tool(Tool),
}

#[derive(Deserialize)]
struct Tool {
    name: String,
    #[serde(default)]
    hash: Option<String>,
}

/// Reads the artifact, in either of its two forms.
pub(crate) fn parse(bytes: &[u8]) -> Result<WorkingSet, String> {
    let file: File = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    if let Some(v) = file.v.filter(|v| *v > VERSION) {
        return Err(format!("written by a later version (format {v})"));
    }
    let mut set = WorkingSet { is_cold: file.cold, ..WorkingSet::default() };
    for entry in file.tools {
        let tool = match entry {
            Entry::Name(name) => Tool { name, hash: None },
            Entry::Tool(tool) => tool,
        };
        set.accept(&tool)?;
        set.names.insert(tool.name);
    }
    for tool in &file.held {
        set.accept(tool)?;
    }
    Ok(set)
}

impl WorkingSet {
    fn accept(&mut self, tool: &Tool) -> Result<(), String> {
        let Some(hash) = &tool.hash else { return Ok(()) };
        let hash = u64::from_str_radix(hash, 16).map_err(|_| format!("{hash:?} is no hash"))?;
        self.accepted.insert(tool.name.clone(), hash);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_later_versions_refused() {
        let long = br#"{"v":1,"tools":[{"name":"b","why":"pinned"},{"name":"a"}],"thresholds":{}}"#;
        let names: Vec<_> = parse(long).expect("names").names.into_iter().collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(parse(br#"{"tools":["x"]}"#).map(|set| set.names.len()), Ok(1));
        for bad in [
            &b"{"[..],
            b"[]",
            b"{}",
            br#"{"v":2,"tools":[]}"#,
            br#"{"tools":[1]}"#,
            br#"{"tools":[{"name":"a","hash":"x"}]}"#,
        ] {
            assert!(parse(bad).is_err());
        }
    }

    #[test]
    fn accepted_definitions_are_read_also_of_tools_kept_out() {
        let text = br#"{"v":1,"tools":[{"name":"a","hash":"00000000000000ff"}],"cold":true,
            "held":[{"name":"b","hash":"0000000000000001"}]}"#;
        let set = parse(text).expect("a set");
        assert_eq!(set.accepted, BTreeMap::from([("a".to_owned(), 255), ("b".to_owned(), 1)]));
        assert_eq!((set.names.len(), set.is_cold), (1, true));
    }
}
