//! The policies that `--grid` asks for.
//!
//! Invariant: the first key changes slowest; every combination comes once.
//! Deliberately absent: combinations that contradict themselves; they are counted and left out.

use mws_cli::Failure;
use mws_config::Thresholds;
use mws_policy::check_thresholds;

/// More than this is a mistake.
const POLICIES_MAX: usize = 10_000;

/// Every combination of the values, based on `base`; `base` alone without any.
pub(crate) fn policies(grid: &[String], base: &Thresholds) -> Result<Vec<Thresholds>, Failure> {
    let mut policies = vec![*base];
    for axis in grid {
        let bad = |why: String| {
            Failure::usage(format!("--grid {axis}: {why}"))
                .hint("for example --grid minSessions=1..4 --grid windowDays=7,14,30,60")
        };
        let (key, values) =
            axis.split_once('=').ok_or_else(|| bad("expected KEY=VALUES".into()))?;
        let mut next = Vec::new();
        for policy in &policies {
            for value in values_of(values).map_err(bad)? {
                let mut policy = *policy;
                set(&mut policy, key.trim(), &value).map_err(bad)?;
                next.push(policy);
            }
        }
        if next.len() > POLICIES_MAX {
            return Err(bad(format!("more than {POLICIES_MAX} combinations")));
        }
        policies = next;
    }
    let all = policies.len();
    policies.retain(|policy| check_thresholds(policy).is_ok());
    match (policies.len(), all) {
        (0, _) => {
            Err(Failure::usage("--grid: in every combination keepDays is less than windowDays")
                .hint("add --grid keepDays=… or --keep-days"))
        }
        (some, all) if some < all => {
            let out = all - some;
            tracing::warn!("Left out {out} combinations: keepDays is less than windowDays.");
            Ok(policies)
        }
        _ => Ok(policies),
    }
}

/// `1..4` and `7,14,30`, also together; both ends of a range are included.
fn values_of(text: &str) -> Result<Vec<String>, String> {
    let mut values = Vec::new();
    for part in text.split(',').map(str::trim) {
        let Some((from, to)) = part.split_once("..") else {
            values.push(part.to_owned());
            continue;
        };
        let bound = |text: &str| text.trim().parse::<u32>().ok();
        match (bound(from), bound(to.strip_prefix('=').unwrap_or(to))) {
            (Some(from), Some(to)) if from <= to && (to - from) < POLICIES_MAX as u32 => {
                values.extend((from..=to).map(|n| n.to_string()));
            }
            _ => return Err(format!("'{part}' is no range")),
        }
    }
    Ok(values)
}

fn set(policy: &mut Thresholds, key: &str, value: &str) -> Result<(), String> {
    let number = || value.parse::<u32>().map_err(|_| format!("'{value}' is no whole number"));
    match key {
        "policy" => policy.rule = value.parse()?,
        "minSessions" => policy.min_sessions = number()?,
        "minCalls" => policy.min_calls = number()?,
        "windowDays" => policy.window_days = number()?,
        "keepDays" => policy.keep_days = number()?,
        "pinDecayDays" => policy.pin_decay_days = number()?,
        "maxTokens" if value == "off" => policy.max_tokens = None,
        "maxTokens" => policy.max_tokens = Some(number()?),
        "cacheDiscount" => policy.cache_discount = number()?.min(100),
        _ => {
            let keys = "minSessions, minCalls, windowDays, keepDays, pinDecayDays, maxTokens, \
                        cacheDiscount, policy";
            return Err(format!("'{key}' is not known; use one of {keys}"));
        }
    }
    Ok(())
}

/// What tells a policy from the others of the grid; without a grid its rule.
pub(crate) fn label(grid: &[String], policy: &Thresholds) -> String {
    if grid.is_empty() {
        return policy.rule.to_string();
    }
    let keys = grid.iter().filter_map(|axis| axis.split_once('=')).map(|(key, _)| key.trim());
    keys.map(|key| format!("{key}={}", value_of(policy, key))).collect::<Vec<_>>().join(" ")
}

fn value_of(policy: &Thresholds, key: &str) -> String {
    let number = match key {
        "policy" => return policy.rule.to_string(),
        "minSessions" => policy.min_sessions,
        "minCalls" => policy.min_calls,
        "windowDays" => policy.window_days,
        "keepDays" => policy.keep_days,
        "pinDecayDays" => policy.pin_decay_days,
        "cacheDiscount" => policy.cache_discount,
        _ => return policy.max_tokens.map_or("off".to_owned(), |tokens| tokens.to_string()),
    };
    number.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(grid: &[&str]) -> Result<Vec<(u32, u32)>, Failure> {
        let grid: Vec<String> = grid.iter().map(|axis| (*axis).to_owned()).collect();
        let all = policies(&grid, &Thresholds::default())?;
        Ok(all.iter().map(|policy| (policy.min_sessions, policy.window_days)).collect())
    }

    #[test]
    fn ranges_and_lists_are_combined_the_first_key_slowest() {
        assert_eq!(cells(&[]).expect("the base"), [(2, 30)]);
        let want = [(1, 7), (1, 14), (2, 7), (2, 14), (5, 7), (5, 14)];
        assert_eq!(cells(&["minSessions=1..2,5", "windowDays=7, 14"]).expect("cells"), want);
    }

    #[test]
    fn what_contradicts_itself_is_left_out_and_mistakes_are_named() {
        assert_eq!(cells(&["windowDays=60..62"]).expect("one fits"), [(2, 60)]);
        for (grid, word) in [
            ("windowDays=61,62", "every combination"),
            ("minSessions", "KEY=VALUES"),
            ("minSession=1", "'minSession' is not known"),
            ("minSessions=4..1", "'4..1' is no range"),
            ("minSessions=x", "'x' is no whole number"),
            ("minSessions=", "'' is no whole number"),
            ("policy=best", "'best' is not known"),
            ("minSessions=1..99999999", "no range"),
        ] {
            let failure = cells(&[grid]).expect_err(grid);
            assert!(failure.message().contains(word), "{failure}");
        }
    }
}
