//! JSON fields of other programs' files: what has an unexpected type reads as absent.
//!
//! Invariant: a strange field never costs the record that it stands in, and depth never costs
//! stack. Deliberately absent: keeping what is not understood.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use mws_event::Timestamp;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A string.
#[derive(Debug, Default)]
pub(crate) struct Text<'a>(pub(crate) Option<Cow<'a, str>>);

/// A boolean.
#[derive(Debug, Default)]
pub(crate) struct Flag(pub(crate) Option<bool>);

/// An object that reads as `T`.
#[derive(Debug)]
pub(crate) struct Object<T>(pub(crate) Option<T>);

/// An array of objects that read as `T`; other elements are left out.
#[derive(Debug)]
pub(crate) struct List<T>(pub(crate) Vec<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl Text<'_> {
    /// The string, unless empty.
    pub(crate) fn get(&self) -> Option<&str> {
        self.0.as_deref().filter(|text| !text.is_empty())
    }
}

/// The visitor methods that read a value as absent, but for those named.
macro_rules! absent {
    ($($method:ident($type:ty)),*) => {
        $(fn $method<E>(self, _: $type) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        })*
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Self::Value::default())
        }
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("anything")
        }
    };
}

macro_rules! absent_seq {
    () => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
}

macro_rules! absent_map {
    () => {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(Self::Value::default())
        }
    };
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Some(Cow::Borrowed(text))))
    }
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Some(Cow::Owned(text.to_owned()))))
    }
    absent!(visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64));
    absent_seq!();
    absent_map!();
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(TextVisitor)
    }
}

struct FlagVisitor;

impl<'de> Visitor<'de> for FlagVisitor {
    type Value = Flag;

    fn visit_bool<E>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(Flag(Some(flag)))
    }
    absent!(visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str));
    absent_seq!();
    absent_map!();
}

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(FlagVisitor)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|value| Object(Some(value)))
    }
    absent!(visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str));
    absent_seq!();
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(ObjectVisitor(PhantomData))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Object(item)) = seq.next_element::<Object<T>>()? {
            list.extend(item);
        }
        Ok(List(list))
    }
    absent!(visit_bool(bool), visit_i64(i64), visit_u64(u64), visit_f64(f64), visit_str(&str));
    absent_map!();
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(ListVisitor(PhantomData))
    }
}

/// Reads a time; one without a zone is UTC.
pub(crate) fn parse_ts(text: &str) -> Option<Timestamp> {
    text.parse().or_else(|_| format!("{text}Z").parse()).ok()
}

/// `name` of a JSON object: in the input of `call_tool`, the tool that it is to call.
pub(crate) fn name_in(json: &str) -> Option<String> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Input<'a> {
        #[serde(borrow)]
        name: Text<'a>,
    }
    let input: Object<Input<'_>> = serde_json::from_str(json).ok()?;
    input.0?.name.get().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[derive(Deserialize)]
    #[serde(default)]
    struct Probe<'a> {
        #[serde(borrow)]
        text: Text<'a>,
        flag: Flag,
        list: List<Inner>,
        object: Object<Inner>,
    }

    impl Default for Probe<'_> {
        fn default() -> Self {
            Self { text: Text(None), flag: Flag(None), list: List::default(), object: Object(None) }
        }
    }

    #[derive(Debug, Deserialize)]
    struct Inner {
        #[serde(default)]
        flag: Flag,
    }

    #[test]
    fn any_value_in_any_place_is_read_without_an_error() {
        let values = ["null", "true", "-1", "1", "1.5e3", "\"s\\n\"", "[1,[{}]]", "{\"a\":[{}]}"];
        for value in values {
            let json = format!(
                r#"{{"text":{value},"flag":{value},"list":{value},"object":{value},"x":{value}}}"#
            );
            let probe: Probe<'_> = serde_json::from_str(&json).expect(value);
            assert_eq!(probe.text.0.is_some(), value.starts_with('"'), "{value}");
            assert_eq!(probe.flag.0.is_some(), value == "true", "{value}");
            assert_eq!(probe.object.0.is_some(), value.starts_with('{'), "{value}");
        }
    }

    #[test]
    fn what_fits_is_kept() {
        let json =
            r#"{"text":"a","list":[1,{"flag":true},"x",{"flag":3}],"object":{"flag":false}}"#;
        let probe: Probe<'_> = serde_json::from_str(json).expect("read");
        assert!(matches!(probe.text.0, Some(Cow::Borrowed("a"))));
        let flags: Vec<_> = probe.list.0.iter().map(|inner| inner.flag.0).collect();
        assert_eq!(flags, [Some(true), None]);
        assert_eq!(probe.object.0.and_then(|inner| inner.flag.0), Some(false));
    }

    #[test]
    fn depth_costs_no_stack() {
        let json = format!(r#"{{"text":{}1{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        let probe: Probe<'_> = serde_json::from_str(&json).expect("read");
        assert!(probe.text.0.is_none());
    }

    #[test]
    fn zones_and_their_absence() {
        for (text, want) in [
            ("2026-03-01T12:00:00+02:00", "2026-03-01T10:00:00.000Z"),
            ("2026-03-01T10:30:00", "2026-03-01T10:30:00.000Z"),
            ("2026-03-01T11:00:00.123456Z", "2026-03-01T11:00:00.123Z"),
        ] {
            assert_eq!(parse_ts(text).map(|ts| ts.to_string()).as_deref(), Some(want));
        }
        assert_eq!(parse_ts("soon"), None);
    }
}
