//! `tools` of the configuration: which tools of the upstream exist for clients at all.
//!
//! Invariant: no allow list allows every tool, an empty one none; what is denied stays denied.
//! Deliberately absent: the meta-tools, which are the proxy's own and always there.

use crate::fields::Fields;

/// Which tools may be seen and called.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolRules {
    /// Patterns of names; `None` allows all.
    pub allow: Option<Vec<String>>,
    /// Patterns of names that are left out even where they are allowed.
    pub deny: Vec<String>,
}

impl ToolRules {
    /// Whether a tool of this name exists for clients.
    pub fn allows(&self, name: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, name));
        self.allow.as_deref().is_none_or(any) && !any(&self.deny)
    }

    /// True when there is something to check.
    pub fn restrict(&self) -> bool {
        self.allow.is_some() || !self.deny.is_empty()
    }
}

/// `*` stands for any characters, `?` for one; everything else for itself.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Where to go on when a later character does not fit: behind the last star, one further on.
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p + 1, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((behind, at)) = star else { return false };
                star = Some((behind, at + 1));
                (p, n) = (behind, at + 1);
            }
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

pub(crate) fn tools(top: &Fields<'_>, warnings: &mut Vec<String>) -> Result<ToolRules, String> {
    let Some(value) = top.get("tools") else { return Ok(ToolRules::default()) };
    let fields = Fields::new("tools", value)?;
    let rules = ToolRules {
        allow: fields.texts("allow")?,
        deny: fields.texts("deny")?.unwrap_or_default(),
    };
    fields.unknown(warnings);
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, want) in [
            ("mail_send", "mail_send", true),
            ("mail_send", "mail_sender", false),
            ("mail_*", "mail_send", true),
            ("mail_*", "Mail_send", false),
            ("*_send", "mail_send", true),
            ("*", "", true),
            ("*", "any/thing.é", true),
            ("", "a", false),
            ("m?il*d", "mail_send", true),
            ("m?il*d", "mil_send", false),
            ("*a*b*", "xaxxbx", true),
            ("*a*b*", "xbxxax", false),
            ("a**", "a", true),
        ] {
            assert_eq!(matches(pattern, name), want, "{pattern} {name}");
        }
        // A pattern that backtracking could make slow.
        assert!(!matches(&"*a".repeat(100), &"a".repeat(99)));
    }

    #[test]
    fn no_allow_list_allows_all_and_an_empty_one_none() {
        let rules = |allow: Option<&[&str]>, deny: &[&str]| {
            let own = |list: &[&str]| list.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
            ToolRules { allow: allow.map(own), deny: own(deny) }
        };
        assert!(rules(None, &[]).allows("a") && !rules(None, &[]).restrict());
        assert!(!rules(Some(&[]), &[]).allows("a") && rules(Some(&[]), &[]).restrict());
        assert!(!rules(Some(&["a"]), &["a*"]).allows("a"));
        assert!(rules(None, &["b"]).allows("a"));
    }
}
