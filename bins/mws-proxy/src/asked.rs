//! The arguments of `search_tools`.
//!
//! Invariant: every argument may be absent or null; a wrong one is told in words that a model can act on.
//! Deliberately absent: arguments that nobody documented; they are passed over.

use mws_catalog::json::{self, Member};
use mws_search::{Detail, Request};

/// Tools in a ranked reply, unless the request says otherwise, and the most it may ask for.
const LIMIT: usize = 10;
const LIMIT_MAX: usize = 100;

/// What a search asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    query: String,
    backend: Option<String>,
    limit: usize,
    detail: Detail,
}

impl Asked {
    /// Reads the arguments; none at all ask for the overview.
    ///
    /// # Errors
    /// What is wrong with the arguments, for the model to read.
    pub(crate) fn read(arguments: Option<&str>) -> Result<Self, String> {
        let arguments = arguments.filter(|a| a.trim() != "null").unwrap_or("{}");
        let members =
            json::members(arguments).ok_or("arguments must be an object {\"query\": \"…\"}")?;
        Ok(Self {
            query: text(&members, "query")?.unwrap_or_default(),
            backend: text(&members, "backend")?.filter(|backend| !backend.trim().is_empty()),
            limit: limit(given(&members, "limit"))?,
            detail: detail(text(&members, "detail")?.as_deref())?,
        })
    }

    pub(crate) fn request(&self) -> Request<'_> {
        let Self { query, backend, limit, detail } = self;
        Request { query, backend: backend.as_deref(), limit: *limit, detail: *detail }
    }
}

fn given<'a>(members: &[Member<'a>], key: &str) -> Option<&'a str> {
    json::get(members, key).filter(|value| *value != "null")
}

fn text(members: &[Member<'_>], key: &str) -> Result<Option<String>, String> {
    let Some(value) = given(members, key) else { return Ok(None) };
    let text = json::string(value).ok_or_else(|| format!("{key} must be a string"))?;
    Ok(Some(text.into_owned()))
}

/// A whole number, also as models write it: `5.0`, `"5"`.
fn limit(value: Option<&str>) -> Result<usize, String> {
    let Some(value) = value else { return Ok(LIMIT) };
    let number = value.trim_matches('"').trim().parse::<f64>().ok();
    let number = number.filter(|number| *number >= 1.0 && number.fract() == 0.0);
    let number = number.ok_or_else(|| format!("limit must be a number from 1 to {LIMIT_MAX}"))?;
    Ok((number as usize).min(LIMIT_MAX))
}

fn detail(word: Option<&str>) -> Result<Detail, String> {
    match word {
        None | Some("best" | "") => Ok(Detail::Best),
        Some("brief") => Ok(Detail::Brief),
        Some("full") => Ok(Detail::Full),
        Some(_) => Err("detail must be brief, best or full".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &str) -> Result<Asked, String> {
        Asked::read(Some(arguments))
    }

    #[test]
    fn everything_may_be_absent() {
        let nothing = Asked::read(None);
        for empty in ["null", "{}", r#"{"query":null,"limit":null,"backend":null,"detail":null}"#] {
            assert_eq!(read(empty), nothing, "{empty}");
        }
        let nothing = nothing.expect("asked");
        let request = nothing.request();
        assert_eq!((request.query, request.backend, request.limit), ("", None, LIMIT));
        assert_eq!(request.detail, Detail::Best);
    }

    #[test]
    fn every_argument_is_read() {
        let asked = read(r#"{"query":"share","backend":"drive","limit":3,"detail":"full","x":1}"#);
        let (backend, detail) = (Some("drive".to_owned()), Detail::Full);
        assert_eq!(asked, Ok(Asked { query: "share".into(), backend, limit: 3, detail }));
        for (limit, want) in [("1", 1), ("5.0", 5), (r#""7""#, 7), ("9999999999999", LIMIT_MAX)] {
            let asked = read(&format!("{{\"limit\":{limit}}}"));
            assert_eq!(asked.map(|asked| asked.limit), Ok(want));
        }
    }

    #[test]
    fn wrong_arguments_are_named() {
        for (arguments, word) in [
            ("[]", "object"),
            (r#"{"query":1}"#, "query"),
            (r#"{"backend":{}}"#, "backend"),
            (r#"{"limit":0}"#, "limit"),
            (r#"{"limit":-1}"#, "limit"),
            (r#"{"limit":1.5}"#, "limit"),
            (r#"{"limit":"ten"}"#, "limit"),
            (r#"{"detail":"all"}"#, "detail"),
        ] {
            assert!(read(arguments).is_err_and(|why| why.contains(word)), "{arguments}");
        }
    }
}
