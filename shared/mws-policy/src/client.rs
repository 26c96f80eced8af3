//! Which client a name stands for.
//!
//! Invariant: version and spelling make no difference.
//! Deliberately absent: what a client is asked or told; only its calls are looked at.

/// Clients with transcripts, which give themselves longer names over the wire.
const FAMILIES: [&str; 4] = ["claudecode", "codex", "geminicli", "qwen"];

/// `claude-code`, `claude-code/2.1 (cli)` and `Claude Code` are one family.
pub(crate) fn family(client: &str) -> String {
    let name = client.split(['/', '(']).next().unwrap_or_default();
    let mut words: Vec<&str> = name.split_whitespace().collect();
    let is_version = |w: &&str| w.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
    if words.len() > 1 {
        words.pop_if(|w| is_version(&&**w));
    }
    let letters = words.concat().to_lowercase();
    let plain: String = letters.chars().filter(|c| c.is_alphanumeric()).collect();
    let known = FAMILIES.iter().find(|known| plain.starts_with(**known));
    known.map_or(plain, |known| (*known).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_no_version_and_no_spelling() {
        for (family_name, clients) in [
            (
                "claudecode",
                &["claude-code", "claude-code/2.1.3 (cli)", "Claude Code", "Claude Code 2.1"][..],
            ),
            ("codex", &["codex", "codex-mcp-client", "codex_cli_rs/0.144"]),
            ("geminicli", &["gemini-cli", "gemini-cli-mcp-client"]),
            ("qwen", &["qwen-code", "qwen-cli-mcp-client-toolbox"]),
            ("cursor", &["Cursor", "cursor/1.0", "cursor v1.2"]),
            ("", &["", "/1"]),
            ("7", &["7"]),
        ] {
            for client in clients {
                assert_eq!(family(client), family_name, "{client}");
            }
        }
        assert_ne!(family("claude-ai"), family("claude-code"));
    }
}
