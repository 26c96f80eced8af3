//! Which tool names are ours, and what the upstream calls them.
//!
//! Invariant: `mcp__toolbox2__x` and `mcp__my_toolbox__x` are never taken for server `toolbox`.
//! Deliberately absent: guessing. A mangled name that fits two catalog names stays as written.

use std::collections::{HashMap, HashSet};

use memchr::memmem::Finder;
use mws_event::Via;
use xxhash_rust::xxh3::xxh3_64;

use crate::codex::CodexNames;

/// The proxy's own tool for searching; using it is no use of a tool.
pub(crate) const SEARCH_TOOLS: &str = "search_tools";
const CALL_TOOL: &str = "call_tool";

/// The tool that a call is counted for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// The upstream's name.
    pub(crate) tool: String,
    /// The name as written, when it differs.
    pub(crate) raw: Option<String>,
    /// How it was reached.
    pub(crate) via: Via,
}

/// Unwraps `call_tool`, whose input names `inner`; `None` for what is no use of an upstream tool.
pub(crate) fn upstream(
    tool: &str,
    inner: impl FnOnce() -> Option<String>,
    resolve: impl Fn(&str) -> String,
) -> Option<Named> {
    let (raw, via) = match tool {
        SEARCH_TOOLS => return None,
        CALL_TOOL => (inner()?, Via::CallTool),
        _ => (tool.to_owned(), Via::Direct),
    };
    let tool = resolve(&raw);
    let raw = Some(raw).filter(|raw| *raw != tool);
    (!matches!(tool.as_str(), SEARCH_TOOLS | CALL_TOOL)).then_some(Named { tool, raw, via })
}

/// The names under which clients know the proxy, and the upstream's tool names.
#[derive(Debug)]
pub(crate) struct Names {
    /// As they are configured.
    plain: Vec<String>,
    /// Longest first, so that a server whose name goes on after `__` wins over its prefix.
    servers: Vec<String>,
    needles: Vec<Finder<'static>>,
    exact: HashSet<String>,
    mangled: HashMap<String, Option<String>>,
    codex: CodexNames,
}

impl Names {
    /// Names of the server, its aliases and the tools of the catalog, which may be empty.
    pub(crate) fn new<'a>(
        servers: impl IntoIterator<Item = &'a str>,
        catalog: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let servers: Vec<&str> = servers.into_iter().filter(|name| !name.is_empty()).collect();
        let catalog: Vec<&str> = catalog.into_iter().collect();
        let codex = CodexNames::new(&servers, &catalog);
        let plain = servers.iter().map(|&name| name.to_owned()).collect();
        let mut forms: Vec<String> = Vec::new();
        for name in servers {
            forms.push(mangle(name));
            if !name.contains(['"', '\\']) {
                forms.push(name.to_owned());
            }
        }
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        let needle = |form: &String| Finder::new(&format!("{form}__")).into_owned();
        let needles = forms.iter().map(needle).collect();
        let (mut exact, mut mangled) = (HashSet::new(), HashMap::new());
        for tool in catalog {
            exact.insert(tool.to_owned());
            mangled
                .entry(mangle(tool))
                .and_modify(|name| *name = None)
                .or_insert_with(|| Some(tool.to_owned()));
        }
        Self { plain, servers: forms, needles, exact, mangled, codex }
    }

    /// The names of the server as they are configured.
    pub(crate) fn plain(&self) -> &[String] {
        &self.plain
    }

    /// The names as Codex writes them.
    pub(crate) fn codex(&self) -> &CodexNames {
        &self.codex
    }

    /// What a line must contain to name one of our tools; any of them.
    pub(crate) fn needles(&self) -> &[Finder<'static>] {
        &self.needles
    }

    /// Whether `bytes` contain a needle.
    pub(crate) fn mentioned_in(&self, bytes: &[u8]) -> bool {
        self.needles.iter().any(|needle| needle.find(bytes).is_some())
    }

    /// Differs when other names are looked for, so that files must be read again.
    pub(crate) fn fingerprint(&self) -> u64 {
        let unseen = self.codex.unseen();
        let names = self.servers.iter().map(String::as_str).chain(unseen);
        xxh3_64(names.collect::<Vec<_>>().join("\n").as_bytes())
    }

    /// The upstream's name of a tool as it is written: with its server or without.
    pub(crate) fn resolve_written(&self, raw: &str) -> String {
        let plain = self.split(raw).map_or(raw, |(_, tool)| tool);
        self.resolve(plain).to_owned()
    }

    /// Splits `mcp__<server>__<tool>` or `mcp__plugin_<plugin>_<server>__<tool>` when the server
    /// is ours. Plugin names have no underscore, so the server's name begins after the first.
    pub(crate) fn split<'a>(&self, name: &'a str) -> Option<(&'a str, &'a str)> {
        let rest = name.strip_prefix("mcp__")?;
        let plugin = rest.strip_prefix("plugin_").and_then(|rest| rest.split_once('_'));
        let inner = plugin.filter(|(plugin, _)| !plugin.is_empty()).map(|(_, inner)| inner);
        for candidate in [Some(rest), inner].into_iter().flatten() {
            for server in &self.servers {
                let tool = candidate.strip_prefix(server.as_str());
                if let Some(tool) = tool.and_then(|t| t.strip_prefix("__"))
                    && !tool.is_empty()
                {
                    return Some((&rest[..rest.len() - tool.len() - 2], tool));
                }
            }
        }
        None
    }

    /// The upstream's name of a tool that a client may have mangled.
    pub(crate) fn resolve<'a>(&'a self, tool: &'a str) -> &'a str {
        if self.exact.contains(tool) {
            return tool;
        }
        self.mangled.get(tool).and_then(Option::as_deref).unwrap_or(tool)
    }
}

/// `name` as clients write it: characters outside `[A-Za-z0-9_-]` become `_`.
fn mangle(name: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().map(|c| if keep(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_names_are_told_from_those_of_others() {
        let names = Names::new(["toolbox", "my.box", "toolbox__x"], []);
        for (name, want) in [
            ("mcp__toolbox__mail_send", Some(("toolbox", "mail_send"))),
            ("mcp__toolbox__mail__list", Some(("toolbox", "mail__list"))),
            ("mcp__toolbox__x__y", Some(("toolbox__x", "y"))),
            ("mcp__plugin_acme_toolbox__a", Some(("plugin_acme_toolbox", "a"))),
            ("mcp__plugin_a-b_my_box__a", Some(("plugin_a-b_my_box", "a"))),
            ("mcp__my_box__a", Some(("my_box", "a"))),
            ("mcp__my.box__a", Some(("my.box", "a"))),
            ("mcp__toolbox2__a", None),
            ("mcp__my_toolbox__a", None),
            ("mcp__plugin_acme_my_toolbox__a", None),
            ("mcp__plugin__toolbox__a", None),
            ("mcp__toolbox__", None),
            ("toolbox__a", None),
            ("Bash", None),
        ] {
            assert_eq!(names.split(name), want, "{name}");
        }
    }

    #[test]
    fn mangled_names_are_resolved_when_only_one_fits() {
        let names = Names::new(["toolbox"], ["mail.send", "a.b", "a/b", "x_y", "x.y"]);
        assert_eq!(names.resolve("mail_send"), "mail.send");
        assert_eq!(names.resolve("a_b"), "a_b");
        assert_eq!(names.resolve("x_y"), "x_y");
        assert_eq!(names.resolve("new_tool"), "new_tool");
    }

    #[test]
    fn every_form_of_our_name_contains_a_needle() {
        let names = Names::new(["my.box"], []);
        for form in ["\"mcp__my_box__a\"", "\"mcp__plugin_x_my_box__a\"", "\"mcp__my.box__a\""] {
            assert!(names.mentioned_in(form.as_bytes()), "{form}");
        }
        assert!(!names.mentioned_in(b"my_box _ mybox__"));
    }
}
