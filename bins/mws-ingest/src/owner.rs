//! Which session made a call that several show.
//!
//! Invariant: the answer depends on what is known, not on the order in which it became known.
//! Deliberately absent: which records are copies of one call; see [`crate::calls`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mws_event::Timestamp;

use crate::sighting::Link;

/// Links are followed this far: files may hold loops.
const DEPTH: usize = 100;

/// From which thread a thread was split, and whether it is a sub-agent.
#[derive(Debug, Default)]
pub(crate) struct Links(HashMap<Arc<str>, (Arc<str>, bool)>);

impl FromIterator<Link> for Links {
    fn from_iter<I: IntoIterator<Item = Link>>(links: I) -> Self {
        let mut all = Self::default();
        all.extend(links);
        all
    }
}

impl Links {
    /// Takes in more.
    pub(crate) fn extend(&mut self, links: impl IntoIterator<Item = Link>) {
        for link in links {
            self.0.insert(link.thread, (link.parent, link.is_subagent));
        }
    }

    /// The session that a thread's calls belong to: the first parent that is no sub-agent.
    pub(crate) fn root<'a>(&'a self, thread: &'a str) -> &'a str {
        let parent = |thread: &&'a str| {
            self.0.get(*thread).filter(|(_, is_subagent)| *is_subagent).map(|(parent, _)| &**parent)
        };
        let up = std::iter::successors(Some(thread), parent);
        up.take(DEPTH).last().unwrap_or(thread)
    }

    fn ancestors<'a>(&'a self, thread: &'a str) -> impl Iterator<Item = &'a Arc<str>> {
        let mut at = thread;
        std::iter::from_fn(move || {
            let (parent, _) = self.0.get(at)?;
            at = parent;
            Some(parent)
        })
        .take(DEPTH)
    }
}

/// The session that made a call, and the sub-agent of it: of marked copies the one copied from, of
/// threads split from each other the first, and of the rest the one that ended first.
pub(crate) fn owner(
    claims: &[(Arc<str>, Option<Arc<str>>)],
    links: &Links,
    ends: &BTreeMap<Arc<str>, Timestamp>,
) -> (Arc<str>, Option<Arc<str>>) {
    let thread = match claims {
        [(at, from)] => Arc::clone(from.as_ref().unwrap_or(at)),
        _ => first(claims, links, ends),
    };
    let root = links.root(&thread);
    if root == &*thread { (thread, None) } else { (root.into(), Some(thread)) }
}

/// The thread that made a call which several show.
fn first(
    claims: &[(Arc<str>, Option<Arc<str>>)],
    links: &Links,
    ends: &BTreeMap<Arc<str>, Timestamp>,
) -> Arc<str> {
    let copied_from: HashMap<&Arc<str>, &Arc<str>> =
        claims.iter().filter_map(|(at, from)| Some((at, from.as_ref()?))).collect();
    let mut origins: Vec<&Arc<str>> =
        copied_from.values().copied().filter(|from| !copied_from.contains_key(from)).collect();
    if origins.is_empty() {
        origins = claims.iter().map(|(at, from)| from.as_ref().unwrap_or(at)).collect();
    }
    let claims_it = |thread: &&Arc<str>| claims.iter().any(|(at, _)| at == *thread);
    for origin in &mut origins {
        *origin = links.ancestors(origin).filter(claims_it).last().unwrap_or(origin);
    }
    let end = |session: &Arc<str>| {
        ends.get(session).copied().unwrap_or(Timestamp::from_unix_ms(i64::MAX))
    };
    let first = origins.into_iter().min_by_key(|session| (end(session), Arc::clone(session)));
    first.cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(of: &[(&str, &str, bool)]) -> Links {
        of.iter()
            .map(|(thread, parent, is_subagent)| Link {
                thread: (*thread).into(),
                parent: (*parent).into(),
                is_subagent: *is_subagent,
            })
            .collect()
    }

    fn of(claims: &[&str], links: &Links) -> (String, Option<String>) {
        let claims: Vec<_> = claims.iter().map(|at| (Arc::from(*at), None)).collect();
        let (session, agent) = owner(&claims, links, &BTreeMap::new());
        (session.to_string(), agent.map(|agent| agent.to_string()))
    }

    #[test]
    fn a_copied_history_belongs_to_the_first_of_the_threads_that_show_it() {
        let links = links(&[("c", "b", false), ("b", "a", false)]);
        assert_eq!(of(&["c", "b", "a"], &links).0, "a");
        assert_eq!(of(&["c", "b"], &links).0, "b");
        assert_eq!(of(&["c", "a"], &links).0, "a");
        assert_eq!(of(&["c"], &links), ("c".to_owned(), None));
    }

    #[test]
    fn calls_of_sub_agents_are_those_of_their_root() {
        let links = links(&[("c", "b", true), ("b", "a", true), ("f", "b", false)]);
        assert_eq!(of(&["c"], &links), ("a".into(), Some("c".into())));
        assert_eq!(of(&["c", "b"], &links), ("a".into(), Some("b".into())));
        assert_eq!(of(&["f"], &links), ("f".into(), None));
        assert_eq!(of(&["f", "b"], &links).0, "a");
    }

    #[test]
    fn loops_end() {
        let links = links(&[("a", "b", true), ("b", "a", true)]);
        let (session, _) = of(&["a"], &links);
        assert!(["a", "b"].contains(&session.as_str()), "{session}");
    }
}
