//! Editing JSON text in place: every byte that is not named by an edit stays as it is.
//!
//! Invariant: edits name slices of the text they are applied to; order and number text of the
//! rest never change.
//! Deliberately absent: a value tree.

use mws_catalog::json::{self, Member};

/// Replacements of slices of one text.
#[derive(Debug)]
pub(crate) struct Edits<'a> {
    text: &'a str,
    list: Vec<(usize, usize, String)>,
}

impl<'a> Edits<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        Self { text, list: Vec::new() }
    }

    /// Puts `with` in the place of `part`, which must be a slice of the text.
    pub(crate) fn replace(&mut self, part: &str, with: impl Into<String>) {
        self.list.push((json::offset(self.text, part), part.len(), with.into()));
    }

    pub(crate) fn apply(mut self) -> String {
        self.list.sort_by_key(|edit| edit.0);
        let added: usize = self.list.iter().map(|edit| edit.2.len()).sum();
        let mut out = String::with_capacity(self.text.len() + added);
        let mut done = 0;
        for (start, len, with) in &self.list {
            out.push_str(self.text.get(done..*start).unwrap_or_default());
            out.push_str(with);
            done = start + len;
        }
        out.push_str(self.text.get(done..).unwrap_or_default());
        out
    }
}

/// An object written anew from its members: some dropped, some set. Values keep their bytes.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    members: Vec<(String, std::borrow::Cow<'a, str>, std::borrow::Cow<'a, str>)>,
}

impl<'a> Object<'a> {
    /// The members of `text`, or none when it is no object.
    pub(crate) fn of(text: Option<&'a str>) -> Self {
        let members = text.and_then(json::members).unwrap_or_default();
        let entry = |m: Member<'a>| (m.raw_key.to_owned(), m.key, m.value.into());
        Self { members: members.into_iter().map(entry).collect() }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.members.iter().rev().find(|m| m.1 == key).map(|m| m.2.as_ref())
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.members.retain(|m| m.1 != key);
    }

    /// Sets `key` to a JSON text, in its old place when it has one.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<String>) {
        let value = value.into().into();
        match self.members.iter_mut().rev().find(|m| m.1 == key) {
            Some(member) => member.2 = value,
            None => self.members.push((quote(key), key.to_owned().into(), value)),
        }
    }

    pub(crate) fn set_default(&mut self, key: &str, value: &str) {
        if self.get(key).is_none() {
            self.set(key, value);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The decoded keys and their values, in order.
    pub(crate) fn into_members(self) -> impl Iterator<Item = (String, String)> {
        self.members.into_iter().map(|m| (m.1.into_owned(), m.2.into_owned()))
    }

    pub(crate) fn to_json(&self) -> String {
        let members: Vec<_> = self.members.iter().map(|m| format!("{}:{}", m.0, m.2)).collect();
        format!("{{{}}}", members.join(","))
    }
}

/// The text of an object with these members set: in their places where they are there, else at the
/// end. All other bytes stay.
pub(crate) fn with(object: &str, set: &[(&str, String)]) -> String {
    let members = json::members(object).unwrap_or_default();
    let (mut edits, mut added) = (Edits::of(object), String::new());
    for (key, value) in set {
        if let Some(old) = json::get(&members, key) {
            edits.replace(old, value.as_str());
            continue;
        }
        if !members.is_empty() || !added.is_empty() {
            added.push(',');
        }
        added.push_str(&quote(key));
        added.push(':');
        added.push_str(value);
    }
    let end = object.rfind('}').unwrap_or(object.len());
    edits.replace(&object[end..end], added);
    edits.apply()
}

/// The text of an object without a member, and without the comma that belongs to it.
pub(crate) fn without(object: &str, key: &str) -> String {
    let members = json::members(object).unwrap_or_default();
    let Some(member) = members.iter().find(|member| member.key == key) else {
        return object.to_owned();
    };
    let start = json::offset(object, member.raw_key);
    let end = json::offset(object, member.value) + member.value.len();
    let (before, after) = (&object[..start], &object[end..]);
    let rest = match (after.trim_start().strip_prefix(','), before.trim_end().strip_suffix(',')) {
        (Some(after), _) => format!("{before}{}", after.trim_start()),
        (None, Some(before)) => format!("{before}{after}"),
        (None, None) => format!("{before}{after}"),
    };
    // Of a key that stands twice none is to stay.
    without(&rest, key)
}

/// A string as JSON text.
pub(crate) fn quote(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_slices_change() {
        let text = r#"{ "id" : 1e2, "params":{"x": 1.10 } }"#;
        let members = json::members(text).expect("an object");
        let mut edits = Edits::of(text);
        edits.replace(members[1].value, "{}");
        edits.replace(members[0].value, "\"a\"");
        assert_eq!(edits.apply(), r#"{ "id" : "a", "params":{} }"#);
    }

    #[test]
    fn an_object_keeps_order_and_value_bytes() {
        let mut object = Object::of(Some(r#"{"z":1.10,"a":[ 1 ],"k":2}"#));
        object.remove("k");
        object.set("z", "0");
        object.set("new", "true");
        object.set_default("a", "null");
        assert_eq!(object.to_json(), r#"{"z":0,"a":[ 1 ],"new":true}"#);
        assert!(Object::of(None).is_empty());
    }
}
