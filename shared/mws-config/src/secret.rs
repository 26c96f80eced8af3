//! Values that may be secrets: literal, from the environment, or from a file.
//!
//! Invariant: neither `Debug` nor an error ever shows a value.
//! Deliberately absent: keeping resolved values.

use std::fmt;

/// A header or environment value as the configuration gives it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Secret {
    /// Takes the text of the configuration: literal, with `${NAME}` references, or `file:PATH`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// True when the configuration file itself holds the value.
    pub fn is_literal(&self) -> bool {
        !self.0.starts_with("file:") && !self.0.contains("${")
    }

    /// The value: `file:PATH` read without its last newline, `${NAME}` replaced.
    ///
    /// # Errors
    /// Says which file or variable is missing.
    pub fn resolve(&self, env: impl Fn(&str) -> Option<String>) -> Result<String, String> {
        if let Some(path) = self.0.strip_prefix("file:") {
            let text =
                std::fs::read_to_string(path).map_err(|e| format!("cannot read {path}: {e}"))?;
            return Ok(text.trim_end_matches(['\r', '\n']).to_owned());
        }
        let mut value = String::with_capacity(self.0.len());
        let mut rest = self.0.as_str();
        while let Some(start) = rest.find("${") {
            let Some(len) = rest[start + 2..].find('}') else { break };
            let name = &rest[start + 2..start + 2 + len];
            value.push_str(&rest[..start]);
            value.push_str(&env(name).ok_or(format!("the environment has no variable {name}"))?);
            rest = &rest[start + len + 3..];
        }
        value.push_str(rest);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        (name == "TOKEN").then(|| "t0p".to_owned())
    }

    #[test]
    fn references_are_resolved_and_missing_ones_named() {
        assert_eq!(Secret::new("Bearer ${TOKEN}!").resolve(env), Ok("Bearer t0p!".into()));
        assert_eq!(Secret::new("plain ${").resolve(env), Ok("plain ${".into()));
        let error = Secret::new("${NONE}").resolve(env).expect_err("missing");
        assert!(error.contains("NONE"), "{error}");
        let error = Secret::new("file:/nonexistent").resolve(env).expect_err("missing");
        assert!(error.contains("/nonexistent"), "{error}");
    }

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "***");
    }
}
