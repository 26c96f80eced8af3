//! Where the proxy listens: a port or a socket file.
//!
//! Invariant: beyond loopback nothing is opened without a token and a list of hosts; a socket file
//! is for its owner alone.
//! Deliberately absent: accepting.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use mws_cli::Failure;
use mws_config::Listen;
use rustix::fs::Mode;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

use crate::guard::{Guard, PATH};

/// An open listener.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// An accepted connection.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A socket file of ours, removed at the end.
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    /// Opens what the configuration names.
    ///
    /// # Errors
    /// Exit 2 for what is not allowed, exit 1 for what is in use.
    pub(crate) async fn open(listen: &Listen) -> Result<Self, Failure> {
        if let Some(path) = &listen.unix {
            return open_file(path).await;
        }
        let address = address(listen)?;
        let listener = TcpListener::bind(address).await.map_err(|e| match e.kind() {
            ErrorKind::AddrInUse => {
                let port = address.port();
                Failure::failed(format!("cannot listen on {address}: port {port} is in use"))
                    .hint("stop the other program, or choose a port with --listen or listen.port")
            }
            _ => Failure::failed(format!("cannot listen on {address}: {e}")),
        })?;
        Ok(Self::Tcp(listener))
    }

    pub(crate) async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => Ok(Socket::Tcp(listener.accept().await?.0)),
            Self::Unix(listener, _) => Ok(Socket::Unix(listener.accept().await?.0)),
        }
    }

    /// The port, where there is one.
    pub(crate) fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok().map(|address| address.port()),
            Self::Unix(..) => None,
        }
    }

    /// The endpoint, as it is announced.
    pub(crate) fn endpoint(&self) -> String {
        match self {
            Self::Tcp(listener) => {
                let address = listener.local_addr().map(|a| a.to_string()).unwrap_or_default();
                format!("http://{address}{PATH}")
            }
            Self::Unix(_, file) => format!("unix:{}", file.0.display()),
        }
    }
}

/// The guard that `listen` asks for.
///
/// # Errors
/// A token that cannot be used: exit 2.
pub(crate) fn guard(listen: &Listen, port: Option<u16>) -> Result<Guard, Failure> {
    let read = listen.auth.as_ref().map(|source| source.read()).transpose();
    let (token, warning) = read.map_err(Failure::usage)?.unzip();
    if let Some(warning) = warning.flatten() {
        tracing::warn!("{warning}");
    }
    Ok(Guard::new(listen, port, token))
}

/// Reads nothing but the configuration: what may be listened on.
fn address(listen: &Listen) -> Result<SocketAddr, Failure> {
    let host = listen.host.as_str();
    let ip = match host {
        "localhost" => Some(IpAddr::from([127, 0, 0, 1])),
        host => host.parse::<IpAddr>().ok(),
    };
    let Some(ip) = ip else {
        let what = format!("cannot listen on {host}: it is no IP address");
        return Err(Failure::usage(what).hint("use 127.0.0.1, ::1 or localhost"));
    };
    let named = listen.allowed_hosts.as_ref().is_some_and(|hosts| !hosts.is_empty());
    let guarded = listen.auth.is_some() && named;
    if !ip.is_loopback() && !guarded {
        let what = format!(
            "cannot listen on {host}: beyond loopback the proxy serves only with a token \
             (listen.auth) and a list of host names (listen.allowedHosts)"
        );
        return Err(Failure::usage(what).hint("set both, or use 127.0.0.1, ::1 or localhost"));
    }
    Ok(SocketAddr::new(ip, listen.port))
}

/// Opens a socket file with mode 0600; one that nobody listens on any more is replaced.
async fn open_file(path: &Path) -> Result<Listener, Failure> {
    let shown = path.display();
    match std::fs::symlink_metadata(path) {
        Ok(meta) if !meta.file_type().is_socket() => {
            let what = format!("cannot listen on {shown}: there is another file of this name");
            return Err(Failure::usage(what).hint("choose another listen.unix"));
        }
        Ok(_) if UnixStream::connect(path).await.is_ok() => {
            let what = format!("cannot listen on {shown}: it is in use");
            return Err(Failure::failed(what).hint("stop the other program"));
        }
        Ok(_) => drop(std::fs::remove_file(path)),
        Err(_) => {}
    }
    let before = rustix::process::umask(Mode::from_bits_truncate(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = bound.map_err(|e| Failure::failed(format!("cannot listen on {shown}: {e}")))?;
    Ok(Listener::Unix(listener, SocketFile(path.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mws_config::{Config, Places, TokenSource};

    #[test]
    fn beyond_loopback_both_a_token_and_hosts_are_needed() {
        let listen = Config::defaults(&Places::default()).listen;
        for host in ["127.0.0.1", "::1", "localhost", "127.8.8.8"] {
            assert!(address(&Listen { host: host.into(), ..listen.clone() }).is_ok(), "{host}");
        }
        let auth = Some(TokenSource::Env("T".into()));
        let hosts = Some(vec!["box.example".to_owned()]);
        for host in ["0.0.0.0", "::", "192.0.2.1"] {
            for (auth, allowed_hosts, fits) in [
                (None, None, false),
                (auth.clone(), None, false),
                (None, hosts.clone(), false),
                (auth.clone(), Some(Vec::new()), false),
                (auth.clone(), hosts.clone(), true),
            ] {
                let listen = Listen { host: host.into(), auth, allowed_hosts, ..listen.clone() };
                assert_eq!(address(&listen).is_ok(), fits, "{listen:?}");
            }
        }
    }
}
