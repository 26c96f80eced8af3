//! A schema on one line: `(to: string, subject?: string)`.
//!
//! Invariant: parameters stand in the schema's order and no line grows past its limit. Deliberately
//! absent: constraints and nesting; the full schema is one exact search away.

use mws_catalog::json::{self, Member};

/// Characters of a signature before it is cut.
const LIMIT: usize = 240;

/// The parameters of a tool's input schema.
pub(crate) fn signature(schema: &str) -> String {
    let members = json::members(schema).unwrap_or_default();
    let properties = json::get(&members, "properties").and_then(json::members).unwrap_or_default();
    let required = json::get(&members, "required").and_then(json::elements).unwrap_or_default();
    let required: Vec<_> = required.into_iter().filter_map(json::string).collect();
    let mut line = String::from("(");
    for (at, property) in properties.iter().enumerate() {
        let mark = if required.contains(&property.key) { "" } else { "?" };
        let part = format!("{}{mark}: {}", property.key, kind(property.value, 0));
        if line.chars().count() + part.chars().count() > LIMIT {
            line.push_str(if at == 0 { "…" } else { ", …" });
            break;
        }
        line.push_str(if at == 0 { "" } else { ", " });
        line.push_str(&part);
    }
    line.push(')');
    line
}

fn kind(schema: &str, depth: usize) -> String {
    let members = json::members(schema).unwrap_or_default();
    if depth > 3 {
        return "any".to_owned();
    }
    let short = |values: &Vec<&str>| values.len() <= 6 && values.iter().all(|v| v.len() <= 24);
    if let Some(values) = json::get(&members, "enum").and_then(json::elements).filter(short) {
        return values.join("|");
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(branches) = json::get(&members, key).and_then(json::elements) {
            return union(branches.iter().map(|branch| kind(branch, depth + 1)));
        }
    }
    match json::get(&members, "type") {
        Some(types) if types.starts_with('[') => {
            let types = json::elements(types).unwrap_or_default();
            union(types.into_iter().filter_map(json::string).map(|t| typed(&t, &members, depth)))
        }
        Some(single) => typed(&json::string(single).unwrap_or_default(), &members, depth),
        None if json::get(&members, "properties").is_some() => "object".to_owned(),
        None if json::get(&members, "$ref").is_some() => "object".to_owned(),
        None => "any".to_owned(),
    }
}

fn typed(name: &str, members: &[Member<'_>], depth: usize) -> String {
    match (name, json::get(members, "items")) {
        ("array", Some(items)) => {
            let item = kind(items, depth + 1);
            if item.contains('|') { format!("({item})[]") } else { format!("{item}[]") }
        }
        ("", _) => "any".to_owned(),
        _ => name.to_owned(),
    }
}

fn union(kinds: impl Iterator<Item = String>) -> String {
    let mut all: Vec<String> = Vec::new();
    for kind in kinds.filter(|kind| kind != "null") {
        if !all.contains(&kind) {
            all.push(kind);
        }
    }
    if all.is_empty() { "null".to_owned() } else { all.join("|") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_in_order_with_types() {
        let schema = r##"{"properties":{"to":{"type":"string"},"cc":{"type":"array","items":{"type":"string"}},"n":{"anyOf":[{"type":"integer"},{"type":"null"}]},"mode":{"enum":["a","b"]},"x":{"$ref":"#/$defs/X"},"y":{"type":["string","null"]},"z":true},"required":["to","x"]}"##;
        assert_eq!(
            signature(schema),
            r#"(to: string, cc?: string[], n?: integer, mode?: "a"|"b", x: object, y?: string, z?: any)"#
        );
        assert_eq!(signature("{}"), "()");
    }

    #[test]
    fn long_lines_are_cut_at_a_parameter() {
        let properties: Vec<String> = (0..99).map(|i| format!("\"parameter{i}\":{{}}")).collect();
        let line = signature(&format!("{{\"properties\":{{{}}}}}", properties.join(",")));
        assert!(line.ends_with(", …)") && line.chars().count() < LIMIT + 8);
    }
}
