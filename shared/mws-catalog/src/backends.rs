//! Which backend a tool belongs to, read from the names alone.
//!
//! Gateways join backend and tool as `server__tool`, `server:tool`, `server.tool`, `server/tool` or
//! `server_tool`. Invariant: the answer depends on the names in the catalog and on nothing else.
//! Deliberately absent: a list of known servers.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use crate::Catalog;

/// Verbs that begin tool names. A first word from here names what a tool does, not whose it is.
const VERBS: &str = " abort accept ack activate add adjust aggregate allocate analyse analyze answer \
    append apply approve archive ask assign attach authenticate begin block book browse build \
    calculate call cancel change check clean cleanup clear click clone close collect comment commit \
    compare complete compose compute configure confirm connect convert copy count create cut \
    deactivate debug decode decrypt define delete deploy describe destroy detach detect diagnose dial \
    disable disconnect discover dismiss download draft drag drop duplicate edit emulate enable encode \
    encrypt end enter evaluate examine exec execute expand explain explore export extract fetch fill \
    filter find finish fire force format forward generate get give go grant handle has help hide \
    hover identify import index insert inspect install instantiate interact invite invoke is join \
    kill launch leave link list load lock log login logout look lookup make manage mark merge modify \
    monitor mount move mute navigate notify open order parse paste patch pause perform pin ping play \
    poll post predict preview press print process provide provision publish pull purge push put query \
    quit read rebuild recommend reconnect record redo refresh register reindex reject release reload \
    remove rename render reopen reorder repeat replace reply report request rerun reserve reset \
    resize resolve respond restart restore resume retrieve retry return reverse review revoke rotate \
    run save scan schedule scrape scroll search see select send serve set setup share show shutdown \
    sign simulate snooze solve sort split start stop store stream submit subscribe suggest summarize \
    suspend swap switch sync tag take tell terminate test toggle track transfer transform translate \
    trigger type unarchive unassign unblock uninstall unlink unlock unmute unpin unpublish unregister \
    unsubscribe untag update upgrade upload upsert use validate verify view visit wait walk watch \
    write zoom ";

/// Whether a word, in lower case, is one that tool names use as a verb.
pub fn is_verb(word: &str) -> bool {
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| VERBS.split_whitespace().collect());
    WORDS.contains(word)
}

/// One backend and its tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backend {
    /// The name, as its tools spell it.
    pub name: String,
    /// Positions of its tools in [`Catalog::tools`], in the upstream's order.
    pub tools: Vec<usize>,
}

/// The backends of a catalog.
#[derive(Clone, Debug, Default)]
pub struct Backends {
    list: Vec<Backend>,
    /// Tool name → place in `list`, and where the tool's own part of the name begins.
    tools: HashMap<String, (usize, usize)>,
}

impl Backends {
    /// Derives the backends of a catalog.
    pub fn of(catalog: &Catalog) -> Self {
        let names: Vec<&str> = catalog.tools().iter().map(crate::Tool::name).collect();
        let mut backends = Self::default();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for (position, cut) in cuts(&names).into_iter().enumerate() {
            let Some((name, cut)) = names.get(position).copied().zip(cut) else { continue };
            let backend = name.get(..cut.end).unwrap_or_default();
            let place = *places.entry(backend).or_insert_with(|| {
                backends.list.push(Backend { name: backend.to_owned(), tools: Vec::new() });
                backends.list.len() - 1
            });
            backends.list[place].tools.push(position);
            backends.tools.insert(name.to_owned(), (place, cut.rest));
        }
        backends
    }

    /// The backend of a tool; `None` when its name names none.
    pub fn backend(&self, tool: &str) -> Option<&str> {
        let (place, _) = self.tools.get(tool)?;
        self.list.get(*place).map(|backend| backend.name.as_str())
    }

    /// A tool's name without its backend.
    pub fn tool_part<'a>(&self, tool: &'a str) -> &'a str {
        self.tools.get(tool).and_then(|(_, rest)| tool.get(*rest..)).unwrap_or(tool)
    }

    /// All backends, in the order of their first tools.
    pub fn list(&self) -> &[Backend] {
        &self.list
    }
}

/// How backend and tool are joined, strongest first.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Join {
    Double,
    Mark(char),
    Weak,
    Case,
}

/// Where a name may be cut: the backend ends at `end`, the tool's part begins at `rest`.
#[derive(Clone, Copy)]
struct Cut {
    join: Join,
    end: usize,
    rest: usize,
}

/// The cut of every name that has a backend.
fn cuts(names: &[&str]) -> Vec<Option<Cut>> {
    let found: Vec<Option<Cut>> = names.iter().map(|name| cut(name)).collect();
    let mut prefixes: HashMap<&str, usize> = HashMap::new();
    let mut joins: HashMap<Join, usize> = HashMap::new();
    for (name, cut) in names.iter().zip(&found) {
        if let Some(cut) = cut {
            *prefixes.entry(name.get(..cut.end).unwrap_or_default()).or_default() += 1;
            *joins.entry(cut.join).or_default() += 1;
        }
    }
    let shared = |name: &str, cut: &Cut| {
        name.get(..cut.end).and_then(|prefix| prefixes.get(prefix)).is_some_and(|&n| n > 1)
    };
    let noun = |name: &str, cut: &Cut| {
        name.get(..cut.end)
            .is_some_and(|prefix| prefix.len() > 1 && !is_verb(&prefix.to_lowercase()))
    };
    let grouped = |join: Join| {
        let pairs = names.iter().zip(&found);
        let groups = pairs.filter_map(|(name, cut)| {
            let cut = cut.filter(|cut| cut.join == join && shared(name, cut) && noun(name, cut))?;
            name.get(..cut.end)
        });
        let groups: Vec<&str> = groups.collect();
        (groups.len(), groups.into_iter().collect::<HashSet<_>>().len())
    };
    let all = names.len();
    let ((weak, kinds), (case, _)) = (grouped(Join::Weak), grouped(Join::Case));
    // Where nearly every name carries one of several shared prefixes, a gateway joined them: then
    // the rest are prefixes too, be they lone or verbs.
    let gateway = kinds >= 3 && 20 * weak >= 19 * all;
    let valid = |name: &str, cut: &Cut| match cut.join {
        // One odd name with a dot is no gateway; most names with one are.
        join @ (Join::Double | Join::Mark(_)) => {
            shared(name, cut) || 2 * joins.get(&join).copied().unwrap_or(0) > all
        }
        // Two names that begin alike among many that do not are chance.
        Join::Weak => gateway || (noun(name, cut) && shared(name, cut) && 2 * weak >= all),
        // Case marks words, seldom backends: only when most names agree on it.
        Join::Case => noun(name, cut) && shared(name, cut) && 5 * case >= 4 * all,
    };
    let pairs = names.iter().zip(found);
    pairs.map(|(name, cut)| cut.filter(|cut| valid(name, cut))).collect()
}

fn cut(name: &str) -> Option<Cut> {
    let at = |join, end: usize, width| {
        let rest = end + width;
        (end > 0 && name.get(rest..).is_some_and(|rest| rest.contains(char::is_alphanumeric)))
            .then_some(Cut { join, end, rest })
    };
    name.find("__")
        .and_then(|end| at(Join::Double, end, 2))
        .or_else(|| {
            let end = name.find([':', '.', '/'])?;
            at(Join::Mark(name.get(end..)?.chars().next()?), end, 1)
        })
        .or_else(|| at(Join::Weak, name.find('_')?, 1))
        .or_else(|| at(Join::Weak, name.find('-')?, 1))
        .or_else(|| {
            let end = name.find(char::is_uppercase)?;
            at(Join::Case, end, 0)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backends(names: &[&str]) -> Backends {
        let tools: Vec<String> =
            names.iter().map(|name| format!("{{\"name\":{name:?}}}")).collect();
        let text = format!("{{\"tools\":[{}]}}", tools.join(","));
        Backends::of(&Catalog::parse(text.as_bytes()).unwrap().0)
    }

    fn listed(names: &[&str]) -> Vec<(String, usize)> {
        backends(names).list().iter().map(|b| (b.name.clone(), b.tools.len())).collect()
    }

    #[test]
    fn every_join_of_gateways_is_read() {
        for join in ["__", ":", ".", "/", "_", "-"] {
            let names = ["mail-x", "mail-y", "drive-z"].map(|name| name.replacen('-', join, 1));
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let want = if join == "__" || join.contains([':', '.', '/']) { 2 } else { 1 };
            let found = backends(&names);
            assert_eq!(found.list().len(), want, "{join}");
            assert_eq!(found.backend(names[0]), Some("mail"));
            assert_eq!(found.tool_part(names[1]), "y");
        }
    }

    #[test]
    fn a_shared_verb_is_no_backend() {
        assert_eq!(listed(&["get_issue", "get_user", "list_issues", "list_users"]), []);
        assert_eq!(listed(&["getIssue", "getUser", "createIssue"]), []);
        assert_eq!(listed(&["ListIndexTool", "ListShardTool"]), []);
    }

    #[test]
    fn one_server_with_its_own_prefix_is_a_backend() {
        assert_eq!(listed(&["linear_getUser", "linear_getTeam"]), [("linear".to_owned(), 2)]);
    }

    #[test]
    fn a_lone_prefix_counts_only_behind_a_gateway() {
        let servers = ["mail", "drive", "maps"];
        let mut names: Vec<String> = (0..30).map(|i| format!("{}_t{i}", servers[i % 3])).collect();
        names.push("fetch_fetch".to_owned());
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(backends(&names).backend("fetch_fetch"), Some("fetch"));
        assert_eq!(backends(&names).tool_part("fetch_fetch"), "fetch");
        names.truncate(6);
        names.extend(["clock_now", "echo", "think"]);
        assert_eq!(backends(&names).backend("clock_now"), None);
        assert_eq!(backends(&names).tool_part("clock_now"), "clock_now");
        assert_eq!(backends(&names).backend("mail_t0"), Some("mail"));
        names.extend(["echo2", "think2", "ping", "pong", "pung"]);
        assert_eq!(backends(&names).backend("mail_t0"), None);
    }

    #[test]
    fn unicode_and_empty_parts_are_no_trap() {
        assert_eq!(listed(&["__a", "b__", "é_ü", "é_ö", "_", "é_é"]), [("é".to_owned(), 3)]);
    }
}
