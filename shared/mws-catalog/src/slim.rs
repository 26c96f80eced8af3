//! Lossless slimming of a listed tool's input schema.
//!
//! Invariant: whoever reads the slim schema allows the same calls and learns the same things; key
//! order and number text stay; property names, `const`, `enum`, `examples` and `default` values are
//! never entered. Where a rule cannot be sure, the text stays as it is. Deliberately absent: any
//! saving that needs judgement, such as shorter descriptions.

use crate::json::{self, Member};

/// The dialect that applies when a schema names none.
const DEFAULT_DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Levels of schemas that are entered; what lies deeper stays as it is.
const DEPTH_LIMIT: usize = 48;

/// The slimmed text of a schema; the same text where nothing can go.
///
/// A `default: null` goes; a `title` that only repeats the key goes; a `$schema` that names the
/// default dialect goes. `anyOf [X, null]` becomes X only for an optional property whose default is
/// null: leaving the property out then says what null would say. Without that default, null may mean
/// "clear this", so it stays.
pub fn slim(schema: &str) -> String {
    let mut slimmer = Slimmer { targets: Vec::new(), demanded: Vec::new(), rebased: false };
    slimmer.survey(schema, 0);
    slimmer.schema(schema, &Place { path: String::new(), depth: 0, key: None, optional: false })
}

/// Where a schema stands.
struct Place<'a> {
    /// JSON pointer from the root.
    path: String,
    depth: usize,
    /// The key that names it, when it is a property or a definition.
    key: Option<&'a str>,
    /// Whether it is a property that need not be given.
    optional: bool,
}

struct Slimmer {
    /// The fragments of every reference: nothing that they point at may move or go.
    targets: Vec<String>,
    /// Property names that some schema requires without declaring them itself.
    demanded: Vec<String>,
    /// An inner `$id` gives fragments another root, so pointers cannot be followed.
    rebased: bool,
}

impl Slimmer {
    /// Gathers references from the whole text, wherever they stand: more than needed is safe.
    fn survey(&mut self, text: &str, depth: usize) {
        if depth > DEPTH_LIMIT * 2 {
            self.rebased = true;
            return;
        }
        for item in json::elements(text).unwrap_or_default() {
            self.survey(item, depth + 1);
        }
        let members = json::members(text).unwrap_or_default();
        for member in &members {
            match member.key.as_ref() {
                "required" => self.demanded.extend(undeclared(member.value, &members)),
                "dependentRequired" | "dependencies" => {
                    let lists = json::members(member.value).unwrap_or_default();
                    self.demanded.extend(lists.iter().flat_map(|m| undeclared(m.value, &[])));
                }
                "$ref" | "$dynamicRef" | "$recursiveRef" => {
                    self.targets.extend(fragment(member.value));
                }
                "$id" | "id" if depth > 0 && json::string(member.value).is_some() => {
                    self.rebased = true;
                }
                _ => {}
            }
            self.survey(member.value, depth + 1);
        }
    }

    fn schema(&self, text: &str, place: &Place<'_>) -> String {
        let members = json::members(text).filter(|members| !repeats(members));
        let Some(members) = members.filter(|_| place.depth < DEPTH_LIMIT) else {
            return text.to_owned();
        };
        let collapsed = self.collapsed(&members, place);
        let mut kept: Vec<(usize, usize, String)> = Vec::with_capacity(members.len());
        for member in &members {
            let start = json::offset(text, member.raw_key);
            let end = json::offset(text, member.value) + member.value.len();
            if member.key == "anyOf" && collapsed.is_some() {
                kept.extend(collapsed.clone().map(|text| (start, end, text)));
            } else if !self.droppable(member, place) {
                let head = text.get(start..end - member.value.len()).unwrap_or_default();
                let value = self.value(member, &members, place);
                kept.push((start, end, format!("{head}{value}")));
            }
        }
        join(text, &members, &kept)
    }

    fn droppable(&self, member: &Member<'_>, place: &Place<'_>) -> bool {
        let path = child(&place.path, &member.key);
        if self.targets.iter().any(|target| within(target, &path)) {
            return false;
        }
        match member.key.as_ref() {
            "default" => member.value == "null",
            "$schema" => {
                place.depth == 0
                    && json::string(member.value)
                        .is_some_and(|dialect| dialect.trim_end_matches('#') == DEFAULT_DIALECT)
            }
            "title" => match (place.key, json::string(member.value)) {
                (Some(key), Some(title)) => key == title || says_the_same(key, &title),
                _ => false,
            },
            _ => false,
        }
    }

    /// The members of X, where `anyOf [X, null]` says no more than X.
    fn collapsed(&self, members: &[Member<'_>], place: &Place<'_>) -> Option<String> {
        let pointed_at =
            |target: &String| *target == place.path || within(target, &child(&place.path, "anyOf"));
        let null_default = json::get(members, "default") == Some("null");
        if !place.optional || !null_default || self.rebased || self.targets.iter().any(pointed_at) {
            return None;
        }
        let plain =
            |m: &Member<'_>| matches!(m.key.as_ref(), "anyOf" | "default") || is_note(&m.key);
        if !members.iter().all(plain) {
            return None;
        }
        let branches = json::elements(json::get(members, "anyOf")?)?;
        let (at, branch) = match branches.as_slice() {
            [branch, null] if is_null_type(null) => (0, *branch),
            [null, branch] if is_null_type(null) => (1, *branch),
            _ => return None,
        };
        let inner = json::members(branch).filter(|inner| !inner.is_empty() && !repeats(inner))?;
        let clash = |m: &Member<'_>| {
            matches!(m.key.as_ref(), "$id" | "$anchor" | "$dynamicAnchor" | "default")
                || (m.key != "anyOf" && members.iter().any(|outer| outer.key == m.key))
        };
        // Older dialects ignore what stands beside a reference.
        let alone = members.iter().all(|m| m.key == "anyOf" || self.droppable(m, place));
        if inner.iter().any(clash) || (!alone && inner.iter().any(|m| m.key == "$ref")) {
            return None;
        }
        let path = child(&child(&place.path, "anyOf"), &at.to_string());
        let inside = Place { path, depth: place.depth + 1, key: place.key, optional: false };
        let slimmed = self.schema(branch, &inside);
        let body = slimmed.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
        (!body.is_empty()).then(|| body.to_owned())
    }

    /// A member's value, with the schemas in it slimmed.
    fn value(&self, member: &Member<'_>, siblings: &[Member<'_>], place: &Place<'_>) -> String {
        let path = child(&place.path, &member.key);
        let at = |path: String| Place { path, depth: place.depth + 1, key: None, optional: false };
        match member.key.as_ref() {
            "items" if member.value.starts_with('[') => self.list(member.value, &path, place),
            "items"
            | "additionalItems"
            | "contains"
            | "additionalProperties"
            | "propertyNames"
            | "not"
            | "if"
            | "then"
            | "else"
            | "unevaluatedItems"
            | "unevaluatedProperties"
            | "contentSchema" => self.schema(member.value, &at(path)),
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => self.list(member.value, &path, place),
            "properties" => self.map(member.value, &path, place, Some(siblings)),
            "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                self.map(member.value, &path, place, None)
            }
            _ => member.value.to_owned(),
        }
    }

    fn list(&self, text: &str, path: &str, place: &Place<'_>) -> String {
        let items = json::elements(text).unwrap_or_default();
        let slimmed = items.iter().enumerate().map(|(index, item)| {
            let path = child(path, &index.to_string());
            let at = Place { path, depth: place.depth + 1, key: None, optional: false };
            (*item, self.schema(item, &at))
        });
        replace(text, slimmed)
    }

    /// Named schemas; `owner` is the object schema whose properties they are.
    fn map(
        &self,
        text: &str,
        path: &str,
        place: &Place<'_>,
        owner: Option<&[Member<'_>]>,
    ) -> String {
        let members = json::members(text).filter(|m| !repeats(m)).unwrap_or_default();
        let required = owner.map(required);
        let slimmed = members.iter().map(|member| {
            let key = member.key.as_ref();
            let optional = matches!(&required, Some(Some(names))
                if !names.iter().chain(&self.demanded).any(|name| name == key));
            let path = child(path, key);
            let at = Place { path, depth: place.depth + 1, key: Some(key), optional };
            (member.value, self.schema(member.value, &at))
        });
        replace(text, slimmed)
    }
}

/// The required names; `None` where they cannot be read or depend on something else.
fn required(owner: &[Member<'_>]) -> Option<Vec<String>> {
    let conditional = ["dependentRequired", "dependencies", "allOf", "anyOf", "oneOf", "if", "not"];
    if owner.iter().any(|member| conditional.contains(&member.key.as_ref())) {
        return None;
    }
    let Some(list) = json::get(owner, "required") else { return Some(Vec::new()) };
    let names = json::elements(list)?;
    names.into_iter().map(|name| json::string(name).map(|name| name.into_owned())).collect()
}

/// The names in a list of required ones that the same schema does not declare.
fn undeclared(list: &str, owner: &[Member<'_>]) -> Vec<String> {
    let declared = json::get(owner, "properties").and_then(json::members).unwrap_or_default();
    let names = json::elements(list).unwrap_or_default().into_iter().filter_map(json::string);
    names
        .filter(|name| !declared.iter().any(|member| member.key == *name))
        .map(|name| name.into_owned())
        .collect()
}

/// Keys that tell a reader something and constrain nothing.
fn is_note(key: &str) -> bool {
    let notes = ["title", "description", "deprecated", "readOnly", "writeOnly", "$comment"];
    notes.contains(&key) || key.starts_with("x-")
}

fn is_null_type(schema: &str) -> bool {
    let members = json::members(schema).unwrap_or_default();
    matches!(members.as_slice(), [only] if only.key == "type"
        && json::string(only.value).as_deref() == Some("null"))
}

/// Equal but for case and everything that is neither letter nor digit.
fn says_the_same(key: &str, title: &str) -> bool {
    let bare = |text: &str| -> String {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let key = bare(key);
    !key.is_empty() && key == bare(title)
}

fn repeats(members: &[Member<'_>]) -> bool {
    (1..members.len()).any(|i| members.iter().take(i).any(|m| m.key == members[i].key))
}

/// The pointer in a reference, percent-decoded.
fn fragment(value: &str) -> Option<String> {
    let reference = json::string(value)?;
    let (_, fragment) = reference.split_once('#')?;
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| byte == b'%') {
            Some(decoded) => {
                bytes.push(decoded);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn child(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// Whether a pointer leads to a place or into it.
fn within(target: &str, path: &str) -> bool {
    target.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The object again, with the kept members only; its own text where all were kept unchanged.
fn join(text: &str, members: &[Member<'_>], kept: &[(usize, usize, String)]) -> String {
    if kept.len() == members.len() {
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        for (start, end, member) in kept {
            out.push_str(text.get(done..*start).unwrap_or_default());
            out.push_str(member);
            done = *end;
        }
        out.push_str(text.get(done..).unwrap_or_default());
        return out;
    }
    let body: Vec<&str> = kept.iter().map(|(_, _, member)| member.as_str()).collect();
    format!("{{{}}}", body.join(","))
}

/// The text with some of its slices replaced, in order.
fn replace<'a>(text: &str, parts: impl Iterator<Item = (&'a str, String)>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (part, new) in parts {
        let start = json::offset(text, part);
        out.push_str(text.get(done..start).unwrap_or_default());
        out.push_str(&new);
        done = start + part.len();
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

#[cfg(test)]
#[path = "slim_tests.rs"]
mod tests;
