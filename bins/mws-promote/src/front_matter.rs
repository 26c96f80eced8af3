//! Tools named in the YAML front matter of a Markdown file.
//!
//! Invariant: only the text between the first line `---` and the next is parsed; what follows it
//! is never looked at. A file without front matter pins nothing.
//! Deliberately absent: whole-server entries (`mcp__toolbox`, `mcp__toolbox__*`); they would pin
//! the whole catalog.

use mws_config::Config;
use serde::Deserialize;

/// The fields looked at.
#[derive(Deserialize)]
struct FrontMatter {
    #[serde(rename = "mws-pins", default)]
    pins: Option<Names>,
    #[serde(rename = "allowed-tools", default)]
    allowed_tools: Option<Names>,
}

/// A list, or one text with commas or spaces between.
#[derive(Deserialize)]
#[serde(untagged)]
enum Names {
    List(Vec<String>),
    Text(String),
}

/// What stands before our tools' names in a client: `mcp__<server>__`.
#[derive(Debug)]
pub(crate) struct Prefixes(Vec<String>);

impl Prefixes {
    /// For the server's name and its aliases, as they are and as clients mangle them.
    pub(crate) fn of(config: &Config) -> Self {
        let names = std::iter::once(&config.server_name).chain(&config.server_aliases);
        let spellings = names.flat_map(|name| [name.clone(), mangled(name)]);
        Self(spellings.map(|name| format!("mcp__{name}__")).collect())
    }

    fn strip<'a>(&self, name: &'a str) -> Option<&'a str> {
        self.0.iter().find_map(|prefix| name.strip_prefix(prefix.as_str()))
    }
}

/// The upstream names of the tools that `text` pins, as often as it names them.
///
/// # Errors
/// Front matter that does not end, is not YAML or has something else in the place of names.
pub(crate) fn pinned_tools(text: &str, prefixes: &Prefixes) -> Result<Vec<String>, String> {
    let Some(yaml) = front_matter(text)? else { return Ok(Vec::new()) };
    let parsed: Option<FrontMatter> = serde_saphyr::from_str(&yaml).map_err(|e| {
        let text = e.to_string();
        let what = text.lines().next().unwrap_or_default();
        format!("bad front matter: {}", what.trim_start_matches("error: "))
    })?;
    let Some(FrontMatter { pins, allowed_tools }) = parsed else { return Ok(Vec::new()) };
    let mut tools = Vec::new();
    for name in pins.iter().flat_map(Names::iter) {
        tools.push(prefixes.strip(name).unwrap_or(name));
    }
    for name in allowed_tools.iter().flat_map(Names::iter) {
        let name = name.split('(').next().unwrap_or_default();
        tools.extend(prefixes.strip(name));
    }
    tools.retain(|tool| !tool.is_empty() && !tool.contains('*'));
    Ok(tools.into_iter().map(str::to_owned).collect())
}

impl Names {
    fn iter(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match self {
            Self::List(names) => Box::new(names.iter().map(|name| name.trim())),
            Self::Text(text) => Box::new(text.split(|c: char| c == ',' || c.is_whitespace())),
        }
    }
}

/// The text between the first line and the next line `---`; `None` when the first is no `---`.
fn front_matter(text: &str) -> Result<Option<String>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines().map(str::trim_end);
    if lines.next() != Some("---") {
        return Ok(None);
    }
    // One empty line for the `---`, so that errors name the line of the file.
    let mut yaml = String::from("\n");
    for line in lines {
        if line == "---" || line == "..." {
            return Ok(Some(yaml));
        }
        yaml.push_str(line);
        yaml.push('\n');
    }
    Err("the front matter has no end".to_owned())
}

/// Clients write `_` for every character that a tool name may not have.
fn mangled(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned(text: &str) -> Result<Vec<String>, String> {
        let mut config = Config::defaults(&mws_config::Places::default());
        config.server_aliases = vec!["my tools".into()];
        pinned_tools(text, &Prefixes::of(&config))
    }

    #[test]
    fn names_are_read_in_every_form() {
        for (front, then) in [
            ("mws-pins: [a, mcp__toolbox__b]", &["a", "b"][..]),
            ("mws-pins:\n  - a\n  - b", &["a", "b"]),
            ("mws-pins: a, b c", &["a", "b", "c"]),
            ("mws-pins: a", &["a"]),
            ("mws-pins:", &[]),
            ("allowed-tools: Bash(git add:*), mcp__toolbox__a, Read", &["a"]),
            ("allowed-tools: mcp__toolbox__a mcp__other__b", &["a"]),
            ("allowed-tools:\n  - mcp__toolbox__a(x)\n  - Read", &["a"]),
            ("allowed-tools: [mcp__toolbox__*, mcp__toolbox, mcp__toolbox__]", &[]),
            ("allowed-tools: mcp__my_tools__a", &["a"]),
            ("allowed-tools: a", &[]),
            ("name: x\ndescription: |\n  mws-pins: [no]\nmws-pins: [a]", &["a"]),
            ("# only a comment", &[]),
            ("", &[]),
        ] {
            let text = format!("---\n{front}\n---\nmws-pins: [body]\n");
            assert_eq!(
                pinned(&text),
                Ok(then.iter().map(|s| (*s).to_owned()).collect()),
                "{front}"
            );
        }
    }

    #[test]
    fn a_byte_order_mark_and_carriage_returns_do_no_harm() {
        let text = "\u{feff}---\r\nmws-pins:\r\n  - a\r\n---\r\nbody";
        assert_eq!(pinned(text), Ok(vec!["a".to_owned()]));
    }

    #[test]
    fn no_front_matter_is_no_pin() {
        for text in ["", "# Title\n---\nmws-pins: [a]\n---\n", "mws-pins: [a]"] {
            assert_eq!(pinned(text), Ok(Vec::new()), "{text}");
        }
    }

    #[test]
    fn damage_is_an_error_of_one_line() {
        for text in [
            "---\nmws-pins: [a]\n",
            "---\nmws-pins: {a: 1}\n---\n",
            "---\nmws-pins: [a\n---\n",
            "---\nmws-pins: [[a]]\n---\n",
            "---\n- a\n---\n",
        ] {
            let error = pinned(text).expect_err(text);
            assert!(!error.is_empty() && error.lines().count() == 1, "{error}");
        }
        let error = pinned("---\nname: x\na: b: c\n---\n").expect_err("no YAML");
        assert!(error.contains("line 3"), "{error}");
    }
}
