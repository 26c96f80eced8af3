//! TLS towards an https upstream.
//!
//! Invariant: the certificate is checked against the system's roots, which are read only where an
//! https upstream is configured, since they cost memory.
//! Deliberately absent: client certificates.

use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What connects to one host.
pub(crate) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    pub(crate) fn new(host: &str) -> Result<Self, String> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|e| format!("upstream.url: {host}: {e}"))?;
        let found = rustls_native_certs::load_native_certs();
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(found.certs);
        if added == 0 {
            let why =
                found.errors.first().map_or_else(|| "there are none".into(), ToString::to_string);
            return Err(format!("cannot load root certificates: {why}"));
        }
        let mut config =
            ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }

    pub(crate) async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name.clone(), stream).await
    }
}
