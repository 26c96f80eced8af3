//! Whether a text can be the URL of an upstream.
//!
//! Invariant: a message never repeats the URL, which may hold a password.
//! Deliberately absent: what comes behind the host; that is the upstream's own affair.

use std::net::Ipv6Addr;

const EXPECTED: &str = "is not a URL; expected http://HOST[:PORT]/PATH or https://…";

/// Checks scheme, host and port.
///
/// # Errors
/// Says what is wrong, without the name of the field.
pub(crate) fn check(url: &str) -> Result<(), String> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let Some(rest) = rest.filter(|_| !url.contains(char::is_whitespace)) else {
        return Err(EXPECTED.into());
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("holds a user name or a password, which URLs leak; send it with \
                    upstream.headers, such as {\"Authorization\": \"file:PATH\"}"
            .into());
    }
    let (host, behind) = match authority.strip_prefix('[') {
        Some(rest) => rest
            .split_once(']')
            .filter(|(ip, _)| ip.parse::<Ipv6Addr>().is_ok())
            .ok_or("the host in brackets is no IPv6 address")?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    match behind.strip_prefix(':') {
        Some(port) if port.contains(':') => {
            Err("an IPv6 address stands in brackets, as in http://[::1]:80/".into())
        }
        _ if host.is_empty() => Err(EXPECTED.into()),
        Some(port) => check_port(port),
        None if behind.is_empty() => Ok(()),
        None => Err(EXPECTED.into()),
    }
}

fn check_port(port: &str) -> Result<(), String> {
    if port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()) {
        return Err("the port is not a number".into());
    }
    port.parse::<u16>().map(|_| ()).map_err(|_| format!("port {port} is over 65535"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_of_all_kinds_are_taken() {
        for url in [
            "http://h",
            "http://h/",
            "https://h.example:65535/mcp?x=a:b@c",
            "http://[::1]:80/mcp",
            "http://[2001:db8::1]",
            "http://127.0.0.1:4483/mcp",
        ] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_and_the_url_is_not_repeated() {
        for (url, want) in [
            ("ftp://h", "is not a URL"),
            ("http://", "is not a URL"),
            ("http://:80/", "is not a URL"),
            ("http://h /", "is not a URL"),
            ("http://[::1]80/", "is not a URL"),
            ("http://user:s3cret@h/", "holds a user name"),
            ("http://s3cret@[::1]:80/", "holds a user name"),
            ("http://h:65536/", "port 65536 is over 65535"),
            ("http://h:s3cret/", "the port is not a number"),
            ("http://h:/", "the port is not a number"),
            ("http://h:+80/", "the port is not a number"),
            ("http://[::1]:x", "the port is not a number"),
            ("http://[h]:80/", "the host in brackets"),
            ("http://::1:80/", "an IPv6 address stands in brackets"),
        ] {
            let got = check(url).expect_err(url);
            assert!(got.starts_with(want) && !got.contains("s3cret"), "{url}: {got}");
        }
    }
}
