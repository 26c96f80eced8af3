//! What a schema says about parameters: names and descriptions, nested ones too.
//!
//! Invariant: keywords and types are never taken for words. Deliberately absent: following `$ref`;
//! definitions are walked where they stand, so each is met once.

use mws_catalog::json::{self, Member};

/// Levels of nesting and parameters that are read.
const DEPTH: usize = 8;
const MOST: usize = 400;

/// Calls `see(name, description)` for every property of a schema, in order.
pub(crate) fn visit(schema: &str, see: &mut impl FnMut(&str, &str)) {
    walk(schema, 0, &mut 0, see);
}

fn walk(schema: &str, depth: usize, seen: &mut usize, see: &mut impl FnMut(&str, &str)) {
    for item in json::elements(schema).unwrap_or_default() {
        walk(item, depth + 1, seen, see);
    }
    enter(&json::members(schema).unwrap_or_default(), depth, seen, see);
}

fn enter(members: &[Member<'_>], depth: usize, seen: &mut usize, see: &mut impl FnMut(&str, &str)) {
    if depth > DEPTH {
        return;
    }
    for member in members {
        match member.key.as_ref() {
            "properties" => properties(member.value, depth, seen, see),
            "$defs" | "definitions" => {
                for definition in json::members(member.value).unwrap_or_default() {
                    walk(definition.value, depth + 1, seen, see);
                }
            }
            "items" | "prefixItems" | "anyOf" | "oneOf" | "allOf" | "additionalProperties" => {
                walk(member.value, depth + 1, seen, see);
            }
            _ => {}
        }
    }
}

fn properties(map: &str, depth: usize, seen: &mut usize, see: &mut impl FnMut(&str, &str)) {
    for property in json::members(map).unwrap_or_default() {
        *seen += 1;
        if *seen > MOST {
            return;
        }
        let members = json::members(property.value).unwrap_or_default();
        let description = json::get(&members, "description").and_then(json::string);
        see(&property.key, description.as_deref().unwrap_or_default());
        enter(&members, depth + 1, seen, see);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn properties_at_every_level_and_no_keywords() {
        let schema = r##"{"type":"object","properties":{"a":{"type":"array","items":{"properties":{"b":{"description":"bee"}}}},"type":{"anyOf":[{"properties":{"c":{}}}]},"d":true},"required":["a"],"$defs":{"X":{"properties":{"e":{"enum":["z"]}}}}}"##;
        let mut seen = Vec::new();
        super::visit(schema, &mut |name, text| seen.push(format!("{name}:{text}")));
        assert_eq!(seen, ["a:", "b:bee", "type:", "c:", "d:", "e:"]);
    }
}
