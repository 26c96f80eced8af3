//! Reading JSON text in place: the members and elements of one level, as slices of that text.
//!
//! Invariant: every slice returned lies inside the text given, so offsets can be computed and bytes
//! copied as they stand. Deliberately absent: a value tree; callers go down level by level.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// One `key: value` pair of an object.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    /// The key as it stands in the text, with its quotes and escapes.
    pub raw_key: &'a str,
    /// The key, decoded.
    pub key: Cow<'a, str>,
    /// The value as it stands in the text.
    pub value: &'a str,
}

/// The members of an object in order, duplicates included; `None` when the text is no object.
pub fn members(text: &str) -> Option<Vec<Member<'_>>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    Some(serde_json::from_str::<Members<'_>>(text).ok()?.0)
}

/// The elements of an array in order; `None` when the text is no array.
pub fn elements(text: &str) -> Option<Vec<&str>> {
    if !text.trim_start().starts_with('[') {
        return None;
    }
    let elements: Vec<&RawValue> = serde_json::from_str(text).ok()?;
    Some(elements.into_iter().map(RawValue::get).collect())
}

/// The value of a key; the last one where the key stands twice, as JavaScript reads it.
pub fn get<'a>(members: &[Member<'a>], key: &str) -> Option<&'a str> {
    members.iter().rev().find(|member| member.key == key).map(|member| member.value)
}

/// A decoded string; a lone surrogate becomes U+FFFD; `None` when the text is no string.
pub fn string(text: &str) -> Option<Cow<'_, str>> {
    let text = text.trim();
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if !inner.contains('\\') {
        return Some(Cow::Borrowed(inner));
    }
    let bytes = serde_json::from_str::<Bytes>(text).ok()?.0;
    Some(Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Where `part`, a slice of `whole`, begins in it, in bytes.
pub fn offset(whole: &str, part: &str) -> usize {
    (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize)
}

struct Members<'a>(Vec<Member<'a>>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((raw_key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                    let raw_key = raw_key.get();
                    let key = string(raw_key).unwrap_or_default();
                    members.push(Member { raw_key, key, value: value.get() });
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

/// String contents as bytes: the one form in which the parser lets a lone surrogate pass.
struct Bytes(Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Contents;
        impl Visitor<'_> for Contents {
            type Value = Bytes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Contents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_order_duplicates_and_number_text() {
        let text = r#" {"z":1.0,"a\u0062":1e400,"z": [ 1 ] } "#;
        let members = members(text).unwrap();
        let read: Vec<_> = members.iter().map(|m| (m.key.as_ref(), m.value)).collect();
        assert_eq!(read, [("z", "1.0"), ("ab", "1e400"), ("z", "[ 1 ]")]);
        assert_eq!(members[1].raw_key, r#""a\u0062""#);
        assert_eq!(get(&members, "z"), Some("[ 1 ]"));
        assert_eq!(offset(text, members[0].value), 6);
    }

    #[test]
    fn strings_survive_lone_surrogates() {
        assert_eq!(string(r#""a\nb""#).unwrap(), "a\nb");
        assert!(string(r#""x\ud800y""#).unwrap().starts_with('x'));
        assert_eq!(string("12"), None);
        assert!(members("[1]").is_none() && elements("{}").is_none());
    }
}
