//! `listen` of the configuration: where the proxy listens, and who may come in.
//!
//! Invariant: a list of hosts or origins that is there and empty lets nobody in.
//! Deliberately absent: the token itself. It is read when the proxy starts.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::Places;
use crate::fields::Fields;
use crate::load::path;

/// Fewest characters of a token.
const TOKEN_MIN: usize = 16;

/// Address of the front, and its guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// Host; beyond loopback only with `auth` and `allowed_hosts`.
    pub host: String,
    /// Port; 0 takes a free one.
    pub port: u16,
    /// A socket file to listen on, instead of host and port.
    pub unix: Option<PathBuf>,
    /// Where the token is that every request must bear.
    pub auth: Option<TokenSource>,
    /// Host names served besides those of loopback, each with a port or without.
    pub allowed_hosts: Option<Vec<String>>,
    /// Origins of web pages that may send requests; absent means the proxy's own.
    pub allowed_origins: Option<Vec<String>>,
}

/// Where a token is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// In this file.
    File(PathBuf),
    /// In this environment variable.
    Env(String),
}

/// A token; neither `Debug` nor an error shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Token {
    /// Whether `given` is the token. How long it takes depends on the length of `given` alone.
    pub fn is(&self, given: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let differ =
            given.iter().zip(own.iter().cycle()).fold(0, |differ, (a, b)| differ | (a ^ b));
        std::hint::black_box(differ) == 0 && given.len() == own.len()
    }
}

impl TokenSource {
    /// Reads the token; the second value is a warning about who else can read it.
    ///
    /// # Errors
    /// Says which file or variable has no token that can be used.
    pub fn read(&self) -> Result<(Token, Option<String>), String> {
        let (place, text, warning) = match self {
            Self::Env(name) => {
                let text = std::env::var(name).map_err(|_| {
                    format!("listen.auth.tokenEnv: the environment has no variable {name}")
                })?;
                (format!("listen.auth.tokenEnv: the variable {name}"), text, None)
            }
            Self::File(path) => {
                let shown = path.display();
                let failed = |e| format!("listen.auth.tokenFile: cannot read {shown}: {e}");
                let text = std::fs::read_to_string(path).map_err(failed)?;
                let mode = std::fs::metadata(path).map_err(failed)?.mode();
                let open = (mode & 0o077 != 0).then(|| {
                    format!("others can read the token in {shown}; mend with: chmod 600 {shown}")
                });
                (format!("listen.auth.tokenFile: {shown}"), text, open)
            }
        };
        let token = text.trim();
        if token.len() < TOKEN_MIN || !token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(format!(
                "{place} must hold a token of at least {TOKEN_MIN} visible ASCII characters; make \
                 one with: openssl rand -hex 32"
            ));
        }
        Ok((Token(token.to_owned()), warning))
    }
}

pub(crate) fn listen(
    top: &Fields<'_>,
    places: &Places,
    default: Listen,
    warnings: &mut Vec<String>,
) -> Result<Listen, String> {
    let Some(value) = top.get("listen") else {
        return Ok(Listen {
            allowed_hosts: top.texts("allowedHosts")?,
            allowed_origins: top.texts("allowedOrigins")?,
            ..default
        });
    };
    let fields = Fields::new("listen", value)?;
    let port = fields.number("port", u32::from(default.port))?;
    let listen = Listen {
        host: fields.text("host")?.unwrap_or(default.host),
        port: u16::try_from(port).map_err(|_| format!("listen.port: {port} is over 65535"))?,
        unix: fields.text("unix")?.map(|text| path("listen.unix", &text, places)).transpose()?,
        auth: auth(&fields, places, warnings)?,
        allowed_hosts: fields.texts("allowedHosts")?.or(top.texts("allowedHosts")?),
        allowed_origins: fields.texts("allowedOrigins")?.or(top.texts("allowedOrigins")?),
    };
    fields.unknown(warnings);
    Ok(listen)
}

fn auth(
    listen: &Fields<'_>,
    places: &Places,
    warnings: &mut Vec<String>,
) -> Result<Option<TokenSource>, String> {
    let Some(value) = listen.get("auth") else { return Ok(None) };
    let fields = Fields::new("listen.auth", value)?;
    let source = match (fields.text("tokenFile")?, fields.text("tokenEnv")?) {
        (Some(file), None) => TokenSource::File(path("listen.auth.tokenFile", &file, places)?),
        (None, Some(name)) => TokenSource::Env(name),
        _ => return Err("listen.auth: expected one of tokenFile and tokenEnv".into()),
    };
    fields.unknown(warnings);
    Ok(Some(source))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_itself_alone() {
        let token = Token("0123456789abcdef".into());
        assert!(token.is(b"0123456789abcdef"));
        for other in
            ["", "0", "0123456789abcdeF", "0123456789abcdef0", "0123456789abcdef0123456789abcdef"]
        {
            assert!(!token.is(other.as_bytes()), "{other}");
        }
        assert_eq!(format!("{token:?}"), "***");
    }

    #[test]
    fn a_token_that_cannot_be_used_is_refused_without_being_shown() {
        let tmp = tempfile::tempdir().expect("a directory");
        let file = tmp.path().join("token");
        for (text, fits) in
            [("abc123", false), ("with blanks in its middle", false), ("0123456789abcdef\n", true)]
        {
            std::fs::write(&file, text).expect("written");
            let read = TokenSource::File(file.clone()).read();
            assert_eq!(read.is_ok(), fits, "{text}");
            assert!(read.is_ok() || !format!("{read:?}").contains(text.trim()));
        }
        let (_, warning) = TokenSource::File(file).read().expect("a token");
        assert!(warning.is_none_or(|warning| warning.contains("chmod 600")));
    }
}
