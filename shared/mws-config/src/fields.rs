//! Typed access to the fields of a JSON object, with the path of each in every message.
//!
//! Invariant: a field that nobody asked for becomes a warning.
//! Deliberately absent: serde derives; their errors name a line, not a field.

use std::cell::RefCell;

use serde_json::{Map, Value};

use crate::nearest;

/// One object of the configuration, and where it stands.
pub(crate) struct Fields<'a> {
    path: String,
    map: &'a Map<String, Value>,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(path: &str, value: &'a Value) -> Result<Self, String> {
        match value {
            Value::Object(map) => {
                Ok(Self { path: path.to_owned(), map, asked: RefCell::default() })
            }
            other => Err(wrong(path, "an object", other)),
        }
    }

    pub(crate) fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// The field's value; `null` counts as absent.
    pub(crate) fn get(&self, name: &'static str) -> Option<&'a Value> {
        self.asked.borrow_mut().push(name);
        self.map.get(name).filter(|v| !v.is_null())
    }

    pub(crate) fn text(&self, name: &'static str) -> Result<Option<String>, String> {
        self.get(name).map(|v| text(&self.path_of(name), v)).transpose()
    }

    pub(crate) fn flag(&self, name: &'static str, default: bool) -> Result<bool, String> {
        match self.get(name) {
            None => Ok(default),
            Some(Value::Bool(b)) => Ok(*b),
            Some(other) => Err(wrong(&self.path_of(name), "true or false", other)),
        }
    }

    pub(crate) fn number(&self, name: &'static str, default: u32) -> Result<u32, String> {
        let Some(value) = self.get(name) else { return Ok(default) };
        let number = value.as_u64().and_then(|n| u32::try_from(n).ok());
        number.ok_or_else(|| wrong(&self.path_of(name), "a whole number", value))
    }

    pub(crate) fn texts(&self, name: &'static str) -> Result<Option<Vec<String>>, String> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let path = self.path_of(name);
        let Value::Array(items) = value else {
            return Err(wrong(&path, "a list of strings", value));
        };
        let item = |(i, v): (usize, &Value)| text(&format!("{path}[{i}]"), v);
        items.iter().enumerate().map(item).collect::<Result<_, _>>().map(Some)
    }

    pub(crate) fn table(&self, name: &'static str) -> Result<Vec<(String, String)>, String> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        let path = self.path_of(name);
        let Value::Object(map) = value else { return Err(wrong(&path, "an object", value)) };
        let entry = |(k, v): (&String, &Value)| Ok((k.clone(), text(&format!("{path}.{k}"), v)?));
        map.iter().map(entry).collect()
    }

    /// A warning for each field that is not among those asked for.
    pub(crate) fn unknown(&self, warnings: &mut Vec<String>) {
        let asked = self.asked.borrow();
        for name in self.map.keys().filter(|name| !asked.contains(&name.as_str())) {
            let hint = nearest(name, asked.iter().copied()).map_or_else(String::new, |near| {
                format!("; did you mean '{}'?", self.path_of(near))
            });
            warnings.push(format!("unknown field '{}' is ignored{hint}", self.path_of(name)));
        }
    }
}

pub(crate) fn wrong(path: &str, expected: &str, got: &Value) -> String {
    let got = match got {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => n.to_string(),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    };
    let path = if path.is_empty() { "the whole file" } else { path };
    format!("{path}: expected {expected}, got {got}")
}

fn text(path: &str, value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| wrong(path, "a string", value))
}
