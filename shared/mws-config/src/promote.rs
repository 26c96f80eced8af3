//! The settings under `promote`.
//!
//! Invariant: what is not set keeps the behaviour of the thresholds alone.
//! Deliberately absent: whether thresholds fit together; who decides with them checks that.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::fields::{Fields, wrong};

/// What decides which tools are listed. Days are spans of 24 hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// By which rule.
    pub rule: Rule,
    /// Distinct sessions with a success that promote a tool.
    pub min_sessions: u32,
    /// Successful calls that promote a tool.
    pub min_calls: u32,
    /// The window in which these are counted.
    pub window_days: u32,
    /// How long a promoted tool stays after its last success.
    pub keep_days: u32,
    /// How long a front-matter pin holds without a success.
    pub pin_decay_days: u32,
    /// The most tokens that the listed definitions may have.
    pub max_tokens: Option<u32>,
    /// Percent that a prompt cache takes off the price of the listing.
    pub cache_discount: u32,
}

/// How tools are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rule {
    /// By sessions and calls, with hysteresis.
    #[default]
    Thresholds,
    /// By what listing costs against what searching would.
    Value,
}

/// What is listed while no tool has been promoted yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColdStart {
    /// The pins alone.
    #[default]
    Empty,
    /// The whole catalog, when it has fewer tokens than this.
    AllUnderTokens(u32),
}

/// What happens to a promoted tool whose definition is another one than when it was promoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnChange {
    /// It is said, and the new definition holds.
    #[default]
    Warn,
    /// It is not listed until somebody accepts the new definition.
    Unlist,
    /// It is neither listed nor called until then.
    Block,
}

/// The limit of `all-under-tokens` without a number.
const ALL_UNDER_TOKENS: u32 = 5_000;

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            rule: Rule::default(),
            min_sessions: 2,
            min_calls: 1,
            window_days: 30,
            keep_days: 60,
            pin_decay_days: 90,
            max_tokens: None,
            cache_discount: 0,
        }
    }
}

impl Rule {
    /// Its name in the configuration and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Thresholds => "thresholds",
            Self::Value => "value",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Thresholds, Self::Value]
            .into_iter()
            .find(|rule| rule.name() == text)
            .ok_or_else(|| format!("'{text}' is not known; use thresholds or value"))
    }
}

/// What the object `promote` says.
pub(crate) struct Promotion {
    pub(crate) thresholds: Thresholds,
    pub(crate) cold_start: ColdStart,
    pub(crate) on_change: OnChange,
}

pub(crate) fn read(top: &Fields<'_>, warnings: &mut Vec<String>) -> Result<Promotion, String> {
    let default = Thresholds::default();
    let Some(value) = top.get("promote") else {
        let (cold_start, on_change) = Default::default();
        return Ok(Promotion { thresholds: default, cold_start, on_change });
    };
    let fields = Fields::new("promote", value)?;
    let rule = fields.text("policy")?.map(|text| text.parse()).transpose();
    let thresholds = Thresholds {
        rule: rule.map_err(|e: String| format!("promote.policy: {e}"))?.unwrap_or_default(),
        min_sessions: fields.number("minSessions", default.min_sessions)?,
        min_calls: fields.number("minCalls", default.min_calls)?,
        window_days: fields.number("windowDays", default.window_days)?,
        keep_days: fields.number("keepDays", default.keep_days)?,
        pin_decay_days: fields.number("pinDecayDays", default.pin_decay_days)?,
        max_tokens: match fields.get("maxTokens") {
            None | Some(Value::Bool(false)) => None,
            Some(_) => Some(fields.number("maxTokens", 0)?),
        },
        cache_discount: fields.number("cacheDiscount", default.cache_discount)?,
    };
    if thresholds.cache_discount > 100 {
        let percent = thresholds.cache_discount;
        return Err(format!("promote.cacheDiscount: {percent} is over 100 percent"));
    }
    let (cold_start, on_change) = (cold_start(&fields)?, on_change(&fields)?);
    fields.unknown(warnings);
    Ok(Promotion { thresholds, cold_start, on_change })
}

/// `"empty"`, `"all-under-tokens"`, `"all-under-tokens: N"` or `{"all-under-tokens": N}`.
fn cold_start(fields: &Fields<'_>) -> Result<ColdStart, String> {
    const NAME: &str = "all-under-tokens";
    let path = fields.path_of("coldStart");
    let bad = |value| wrong(&path, "\"empty\" or {\"all-under-tokens\": N}", value);
    let Some(value) = fields.get("coldStart") else { return Ok(ColdStart::Empty) };
    match value {
        Value::String(text) if text == "empty" => Ok(ColdStart::Empty),
        Value::String(text) => match text.strip_prefix(NAME).map(str::trim) {
            Some("") => Ok(ColdStart::AllUnderTokens(ALL_UNDER_TOKENS)),
            Some(rest) => {
                let number = rest.strip_prefix(':').and_then(|n| n.trim().parse().ok());
                number.map(ColdStart::AllUnderTokens).ok_or_else(|| bad(value))
            }
            None => Err(bad(value)),
        },
        Value::Object(map) if map.len() == 1 && map.contains_key(NAME) => {
            let inner = Fields::new(&path, value)?;
            Ok(ColdStart::AllUnderTokens(inner.number(NAME, ALL_UNDER_TOKENS)?))
        }
        other => Err(bad(other)),
    }
}

fn on_change(fields: &Fields<'_>) -> Result<OnChange, String> {
    match fields.text("onChange")?.as_deref() {
        None | Some("warn") => Ok(OnChange::Warn),
        Some("unlist") => Ok(OnChange::Unlist),
        Some("block") => Ok(OnChange::Block),
        Some(other) => {
            Err(format!("promote.onChange: '{other}' is not known; use warn, unlist or block"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_from(promote: &str) -> Result<Promotion, String> {
        let value = serde_json::from_str(&format!("{{\"promote\":{promote}}}")).expect("JSON");
        read(&Fields::new("", &value)?, &mut Vec::new())
    }

    #[test]
    fn every_form_of_a_cold_start_is_read() {
        for (text, want) in [
            ("null", ColdStart::Empty),
            (r#""empty""#, ColdStart::Empty),
            (r#""all-under-tokens""#, ColdStart::AllUnderTokens(5000)),
            (r#""all-under-tokens: 300""#, ColdStart::AllUnderTokens(300)),
            (r#"{"all-under-tokens": 300}"#, ColdStart::AllUnderTokens(300)),
            (r#"{"all-under-tokens": null}"#, ColdStart::AllUnderTokens(5000)),
        ] {
            let read = read_from(&format!("{{\"coldStart\":{text}}}")).expect(text);
            assert_eq!(read.cold_start, want, "{text}");
        }
        for bad in [r#""all""#, "1", r#""all-under-tokens: x""#, "{}", r#"{"all":1}"#] {
            let error = read_from(&format!("{{\"coldStart\":{bad}}}")).err().expect(bad);
            assert!(error.starts_with("promote.coldStart: expected"), "{error}");
        }
    }

    #[test]
    fn a_budget_a_rule_and_a_reaction_are_read_and_wrong_ones_named() {
        let read = read_from(
            r#"{"maxTokens":900,"policy":"value","cacheDiscount":90,"onChange":"block"}"#,
        )
        .expect("read");
        let thresholds = Thresholds {
            rule: Rule::Value,
            max_tokens: Some(900),
            cache_discount: 90,
            ..Thresholds::default()
        };
        assert_eq!((read.thresholds, read.on_change), (thresholds, OnChange::Block));
        assert_eq!(read_from(r#"{"maxTokens":false}"#).expect("off").thresholds.max_tokens, None);
        for (text, want) in [
            (r#"{"policy":"x"}"#, "promote.policy: 'x' is not known"),
            (r#"{"cacheDiscount":101}"#, "promote.cacheDiscount: 101 is over"),
            (r#"{"onChange":"x"}"#, "promote.onChange: 'x' is not known"),
            (r#"{"maxTokens":true}"#, "promote.maxTokens: expected a whole number"),
        ] {
            let error = read_from(text).err().expect(text);
            assert!(error.starts_with(want), "{error}");
        }
    }
}
