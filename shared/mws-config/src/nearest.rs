//! The known words nearest to a wrong one.
//!
//! Invariant: [`nearest`] is silent on a word too far from all known ones; [`nearest_names`] always
//! answers, since who calls a tool needs some name. Deliberately absent: meaning; search has it.

/// The word of `known` that is nearest to `word` by edits (insert, delete, replace, swap of
/// neighbours), if at most a third of its characters differ.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = word.to_lowercase();
    known
        .into_iter()
        .map(|k| (distance(&folded, &k.to_lowercase()), k))
        .min_by_key(|(d, _)| *d)
        .filter(|(d, k)| *d <= (k.chars().count().max(word.chars().count()) / 3).max(1))
        .map(|(_, k)| k)
}

/// The `count` tool names nearest to `name`, best first. The same words in another order, and one
/// name at the end of the other, as with the prefix of a client or a backend, count as near.
pub fn nearest_names<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
    count: usize,
) -> Vec<&'a str> {
    let (folded, sorted) = (name.to_lowercase(), sorted_words(name));
    let far = |other: &str| {
        let lower = other.to_lowercase();
        let (long, short) =
            if lower.len() > folded.len() { (&lower, &folded) } else { (&folded, &lower) };
        let head = long.strip_suffix(short.as_str()).filter(|_| !short.is_empty());
        if head.is_some_and(|head| head.ends_with(|c: char| !c.is_alphanumeric())) {
            return 1;
        }
        distance(&folded, &lower).min(distance(&sorted, &sorted_words(other)) + 1)
    };
    let mut ranked: Vec<_> = known.into_iter().map(|other| (far(other), other)).collect();
    ranked.sort_unstable();
    ranked.into_iter().take(count).map(|(_, other)| other).collect()
}

/// The words of a name in alphabetical order: `getTeam` and `team-get` have the same.
fn sorted_words(name: &str) -> String {
    let mut spaced = String::with_capacity(name.len() + 4);
    let mut lower = false;
    for c in name.chars() {
        if lower && c.is_uppercase() {
            spaced.push(' ');
        }
        lower = c.is_lowercase();
        spaced.extend(if c.is_alphanumeric() { c } else { ' ' }.to_lowercase());
    }
    let mut words: Vec<_> = spaced.split_whitespace().collect();
    words.sort_unstable();
    words.join(" ")
}

fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        (before, above) = (above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["upstream", "listen", "stateDir", "serverName"];
        assert_eq!(nearest("upstraem", known), Some("upstream"));
        assert_eq!(nearest("statedir", known), Some("stateDir"));
        assert_eq!(nearest("lisen", known), Some("listen"));
        assert_eq!(nearest("banana", known), None);
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn three_names_are_given_for_any_wrong_one() {
        let known = ["mail_send", "mail_list", "drive_share", "getTeam", "calendar_list_events"];
        for (wrong, first) in [
            ("mail_sned", "mail_send"),
            ("send_mail", "mail_send"),
            ("list_events", "calendar_list_events"),
            ("mcp__toolbox__drive_share", "drive_share"),
            ("team-get", "getTeam"),
            ("MAIL_LIST", "mail_list"),
        ] {
            let near = nearest_names(wrong, known, 3);
            assert_eq!((near.len(), near[0]), (3, first), "{wrong}: {near:?}");
        }
        assert_eq!(nearest_names("anything", ["only"], 3), ["only"]);
    }
}
