//! Reading `working-set.json`.
//!
//! Invariant: names only; what else the file says is for people and for the report.
//! Deliberately absent: deciding. `mws-promote` does that.

use std::collections::BTreeSet;

use serde::Deserialize;

/// Largest artifact that is read, in bytes.
pub(crate) const MAX: u64 = 4 * 1024 * 1024;

/// The only format version there is.
const VERSION: u32 = 1;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    v: Option<u32>,
    tools: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Entry {
    Name(String),
    Tool { name: String },
}

/// The names in the artifact, in either of its two forms.
pub(crate) fn parse(bytes: &[u8]) -> Result<BTreeSet<String>, String> {
    let file: File = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    match file.v {
        Some(v) if v > VERSION => Err(format!("written by a later version (format {v})")),
        _ => Ok(file
            .tools
            .into_iter()
            .map(|entry| match entry {
                Entry::Name(name) | Entry::Tool { name } => name,
            })
            .collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_and_later_versions_refused() {
        let long = br#"{"v":1,"tools":[{"name":"b","why":"pinned"},{"name":"a"}],"thresholds":{}}"#;
        let names: Vec<_> = parse(long).expect("names").into_iter().collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(parse(br#"{"tools":["x"]}"#).map(|n| n.len()), Ok(1));
        for bad in [&b"{"[..], b"[]", b"{}", br#"{"v":2,"tools":[]}"#, br#"{"tools":[1]}"#] {
            assert!(parse(bad).is_err());
        }
    }
}
