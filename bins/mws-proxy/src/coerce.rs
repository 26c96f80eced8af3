//! Arguments that a model wrote as text though the tool takes an object or an array.
//!
//! Invariant: a string is touched only where the schema has no place for a string and one for what the
//! text holds; every other byte stays.
//! Deliberately absent: numbers, booleans, and anything below the first level.

use mws_catalog::json;

use crate::edit::Edits;

/// References and alternatives that are followed into each other.
const DEPTH: usize = 8;

/// The arguments with every such string turned into what it holds.
pub(crate) fn coerced(arguments: &str, schema: &str) -> String {
    let members = json::members(arguments).unwrap_or_default();
    let mut edits = Edits::of(arguments);
    let mut properties = None;
    for member in &members {
        let Some(text) = json::string(member.value) else { continue };
        let text = text.trim();
        if !text.starts_with(['{', '[']) {
            continue;
        }
        let properties = properties.get_or_insert_with(|| {
            let schema = json::members(schema).unwrap_or_default();
            json::get(&schema, "properties").and_then(json::members).unwrap_or_default()
        });
        let Some(wanted) = json::get(properties, &member.key) else { continue };
        let takes = Takes::of(wanted, schema, DEPTH);
        let fits = !takes.text
            && ((takes.object && json::members(text).is_some())
                || (takes.array && json::elements(text).is_some()));
        if fits {
            edits.replace(member.value, text);
        }
    }
    edits.apply()
}

/// What a schema has a place for.
#[derive(Debug, Clone, Copy, Default)]
struct Takes {
    object: bool,
    array: bool,
    text: bool,
}

impl Takes {
    /// A schema that says nothing takes text, too.
    const UNKNOWN: Self = Self { object: false, array: false, text: true };

    fn of(schema: &str, root: &str, depth: usize) -> Self {
        let members = json::members(schema).filter(|_| depth > 0).unwrap_or_default();
        let get = |key| json::get(&members, key);
        if let Some(kinds) = get("type") {
            let kinds = json::elements(kinds).unwrap_or_else(|| vec![kinds]);
            let has = |kind| kinds.iter().any(|k| json::string(k).as_deref() == Some(kind));
            return Self { object: has("object"), array: has("array"), text: has("string") };
        }
        if let Some(target) = get("$ref").and_then(json::string) {
            let target = target.strip_prefix('#').and_then(|path| at(root, path));
            return target.map_or(Self::UNKNOWN, |target| Self::of(target, root, depth - 1));
        }
        let alternatives = get("anyOf").or_else(|| get("oneOf")).and_then(json::elements);
        let Some(alternatives) = alternatives else { return Self::UNKNOWN };
        alternatives.into_iter().map(|one| Self::of(one, root, depth - 1)).fold(
            Self::default(),
            |a, b| Self {
                object: a.object || b.object,
                array: a.array || b.array,
                text: a.text || b.text,
            },
        )
    }
}

/// The value at a JSON pointer below `root`.
fn at<'a>(root: &'a str, pointer: &str) -> Option<&'a str> {
    pointer.split('/').skip(1).try_fold(root, |value, step| {
        let step = step.replace("~1", "/").replace("~0", "~");
        match json::members(value) {
            Some(members) => json::get(&members, &step),
            None => json::elements(value)?.get(step.parse::<usize>().ok()?).copied(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_becomes_an_object_or_array_only_where_the_schema_asks_for_one() {
        let schema = r##"{"properties":{"o":{"type":"object"},"a":{"type":"array"},"s":{"type":"string"},"u":{"type":["object","string"]},"n":{"type":["array","null"]},"any":{"anyOf":[{"type":"array"},{"type":"null"}]},"or":{"anyOf":[{"type":"array"},{"type":"string"}]},"ref":{"$ref":"#/$defs/x~1y"},"loop":{"$ref":"#/properties/loop"},"open":{}},"$defs":{"x/y":{"type":"object"}}}"##;
        for (arguments, want) in [
            (r#"{"o":"{\"x\": 1.10}","a":"[1]"}"#, r#"{"o":{"x": 1.10},"a":[1]}"#),
            (r#"{"n":" [1] ","any":"[ 2]","ref":"{}"}"#, r#"{"n":[1],"any":[ 2],"ref":{}}"#),
            (r#"{"s":"{}","u":"{}","free":"{}"}"#, r#"{"s":"{}","u":"{}","free":"{}"}"#),
            (r#"{"or":"[1]","loop":"{}","open":"{}"}"#, r#"{"or":"[1]","loop":"{}","open":"{}"}"#),
            (
                r#"{"o":"not an object","a":"{}","o2": 1}"#,
                r#"{"o":"not an object","a":"{}","o2": 1}"#,
            ),
            (r#"{"o":{"y":2},"a":[ ]}"#, r#"{"o":{"y":2},"a":[ ]}"#),
        ] {
            assert_eq!(coerced(arguments, schema), want);
        }
    }
}
