//! How Codex writes the names of our server and of its tools.
//!
//! Invariant: a name that could be of two tools stays as written.
//! Deliberately absent: names with a hash over more than the name; without an end event or a
//! catalog they cannot be told.

use std::collections::{BTreeMap, HashMap, HashSet};

use memchr::memmem::Finder;
use sha1::{Digest, Sha1};

/// Longer names are cut and end in a hash.
const NAME_MAX: usize = 64;
/// What is left of them: the hash was all of its 40 digits at first,
const CUT: usize = 24;
/// and is 12 of them after an underscore now.
const SUFFIX: usize = 12;

/// The names under which Codex knows the proxy, and the upstream's tool names.
#[derive(Debug)]
pub(crate) struct CodexNames {
    /// Longest first, so that a server whose name goes on after `__` wins over its prefix.
    servers: Vec<String>,
    needles: Vec<Needle>,
    exact: HashSet<String>,
    /// By the name with `_` for everything special; `None` when two are written alike.
    mangled: BTreeMap<String, Option<String>>,
    /// Server and tool by the full name with its first kind of hash.
    hashed: HashMap<String, (String, String)>,
}

#[derive(Debug)]
struct Needle {
    finder: Finder<'static>,
    /// The name itself, not the beginning of a cut one: it must end where the needle does.
    whole: bool,
}

impl CodexNames {
    /// Names of the server and its aliases, and of the tools of the catalog, which may be empty.
    pub(crate) fn new(servers: &[&str], catalog: &[&str]) -> Self {
        let both = servers.iter().flat_map(|name| [(*name).to_owned(), mangle(name)]);
        let mut forms: Vec<String> = both.filter(|form| !form.contains(['"', '\\'])).collect();
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        let (mut mangled, mut hashed) = (BTreeMap::new(), HashMap::new());
        for tool in catalog {
            mangled
                .entry(mangle(tool))
                .and_modify(|name| *name = None)
                .or_insert_with(|| Some((*tool).to_owned()));
            for server in &forms {
                if let Some(name) = cut(&format!("mcp__{server}__{tool}")) {
                    hashed.insert(name, (server.clone(), (*tool).to_owned()));
                }
            }
        }
        let exact = catalog.iter().map(|tool| (*tool).to_owned()).collect();
        Self { needles: needles(&forms), servers: forms, exact, mangled, hashed }
    }

    /// What a line must contain to name our server; any of them.
    pub(crate) fn finders(&self) -> impl Iterator<Item = Finder<'_>> {
        self.needles.iter().map(|needle| needle.finder.as_ref())
    }

    /// Whether the hit of needle number `which` that ends at `end` is a name and not a word.
    pub(crate) fn is_name(&self, which: usize, bytes: &[u8], at: usize) -> bool {
        let needle = &self.needles[which];
        let rest = &bytes[at + needle.finder.needle().len()..];
        !needle.whole || rest.starts_with(b"__") || rest.starts_with(b"\"")
    }

    /// Whether `bytes` contain a name of ours.
    pub(crate) fn mentioned_in(&self, bytes: &[u8]) -> bool {
        self.needles.iter().enumerate().any(|(which, needle)| {
            needle.finder.find_iter(bytes).any(|at| self.is_name(which, bytes, at))
        })
    }

    /// Server and tool, when the server is ours.
    pub(crate) fn split<'a>(
        &'a self,
        namespace: Option<&'a str>,
        name: &'a str,
    ) -> Option<(&'a str, &'a str)> {
        if let Some(namespace) = namespace {
            let server = namespace.strip_prefix("mcp__").unwrap_or(namespace);
            let is =
                |form: &&String| [server, server.trim_end_matches('_')].contains(&form.as_str());
            return self.servers.iter().find(is).map(|server| (server.as_str(), name));
        }
        if let Some((server, tool)) = self.hashed.get(name) {
            return Some((server, tool));
        }
        let rest = name.strip_prefix("mcp__").unwrap_or(name);
        self.servers.iter().find_map(|server| {
            let tool = rest.strip_prefix(server.as_str())?.strip_prefix("__")?;
            (!tool.is_empty()).then_some((server.as_str(), tool))
        })
    }

    /// Whether a server's own name is one of ours.
    pub(crate) fn is_ours(&self, server: &str) -> bool {
        self.servers.iter().any(|form| form == server)
    }

    /// The upstream's name of a tool that may have been mangled or cut.
    pub(crate) fn resolve<'a>(&'a self, tool: &'a str) -> &'a str {
        if self.exact.contains(tool) {
            return tool;
        }
        let whole = self.mangled.get(&mangle(tool));
        whole.or_else(|| self.by_beginning(tool)).and_then(Option::as_deref).unwrap_or(tool)
    }

    /// The only name that begins as `tool` does before its hash.
    fn by_beginning(&self, tool: &str) -> Option<&Option<String>> {
        let (beginning, hash) = tool.split_at_checked(tool.len().checked_sub(SUFFIX)?)?;
        let beginning = beginning.strip_suffix('_').filter(|text| !text.is_empty())?;
        if !hash.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let mut fits = self.mangled.range(beginning.to_owned()..);
        let mut next = || fits.next().filter(|(name, _)| name.starts_with(beginning));
        let (_, first) = next()?;
        next().is_none().then_some(first)
    }
}

fn needles(forms: &[String]) -> Vec<Needle> {
    let needle = |text: &str, whole| Needle { finder: Finder::new(text).into_owned(), whole };
    let mut needles: Vec<Needle> = forms.iter().map(|form| needle(form, true)).collect();
    for form in forms {
        // Of a cut name, not all of the server's name may be left.
        let beginning = format!("mcp__{form}__");
        if let Some(beginning) = beginning.get(..CUT) {
            needles.push(needle(beginning, false));
        }
    }
    needles
}

/// `name` cut and with its hash, when it is too long.
fn cut(name: &str) -> Option<String> {
    if name.len() <= NAME_MAX {
        return None;
    }
    let hash: String = Sha1::digest(name).iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{}{hash}", name.get(..CUT)?))
}

/// `name` as Codex writes it now: characters outside `[A-Za-z0-9_]` become `_`.
fn mangle(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_name_is_known() {
        let names = CodexNames::new(&["tool-box", "a__b", "a"], &[]);
        for (namespace, name, want) in [
            (None, "mcp__tool-box__mail_send", Some(("tool-box", "mail_send"))),
            (None, "tool-box__mail__x", Some(("tool-box", "mail__x"))),
            (None, "mcp__a__b__x", Some(("a__b", "x"))),
            (None, "mcp__tool-box__", None),
            (None, "mcp__tool-box2__x", None),
            (None, "shell", None),
            (Some("mcp__tool_box"), "mail", Some(("tool_box", "mail"))),
            (Some("mcp__tool_box__"), "mail", Some(("tool_box", "mail"))),
            (Some("tool-box"), "mail", Some(("tool-box", "mail"))),
            (Some("mcp__github"), "mcp__a__x", None),
        ] {
            assert_eq!(names.split(namespace, name), want, "{namespace:?} {name}");
        }
    }

    #[test]
    fn hashed_and_mangled_names_are_resolved_when_only_one_fits() {
        let long = "mail_search_messages_in_every_folder_of_the_account_by_sender";
        let names = CodexNames::new(&["toolbox"], &[long, "mail-send", "a.b", "a/b", "ab_c"]);
        let full = cut(&format!("mcp__toolbox__{long}")).expect("too long");
        assert_eq!(full.len(), NAME_MAX);
        assert_eq!(names.split(None, &full), Some(("toolbox", long)));
        assert_eq!(names.resolve("mail_send"), "mail-send");
        assert_eq!(names.resolve("a_b"), "a_b");
        assert_eq!(names.resolve("mail_search_messages_in_ev_0123456789ab"), long);
        assert_eq!(names.resolve("mail_0123456789ab"), "mail_0123456789ab");
        assert_eq!(names.resolve("ab_c_0123456789ab"), "ab_c");
        assert_eq!(names.resolve("ab_c_0123456789xx"), "ab_c_0123456789xx");
    }

    #[test]
    fn the_hash_is_that_of_the_full_name() {
        let name = format!("mcp__{}__{}", "s".repeat(30), "t".repeat(30));
        let want = "mcp__sssssssssssssssssss1a4a60c5efb3bd270f5c3a13a72d49c6ccc538fd";
        assert_eq!(cut(&name).as_deref(), Some(want));
        assert_eq!(cut(&name[..NAME_MAX]), None);
    }

    #[test]
    fn a_name_is_told_from_a_word() {
        let names = CodexNames::new(&["toolbox"], &[]);
        for text in [r#""mcp__toolbox__a""#, r#""namespace":"toolbox""#, r#"{"server":"toolbox"}"#]
        {
            assert!(names.mentioned_in(text.as_bytes()), "{text}");
        }
        assert!(!names.mentioned_in(b"the toolbox is toolbox_"));
        let long = CodexNames::new(&["a_server_with_a_long_name"], &[]);
        let cut = cut(&format!("mcp__a_server_with_a_long_name__{}", "x".repeat(64)));
        assert!(long.mentioned_in(cut.expect("cut").as_bytes()));
    }
}
