//! An upstream behind https.
//!
//! Invariant: the certificate is checked; the test's own authority is trusted by environment alone.
//! Deliberately absent: client certificates.

use std::net::SocketAddr;
use std::sync::Arc;

use mws_tests::lab::{Lab, Proxy, bin, finish};
use mws_tests::peer::Peer;
use mws_tests::script::{Era, Script};
use mws_tests::stub::Stub;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

#[test]
fn an_https_upstream_is_reached_when_its_certificate_is_trusted() {
    for era in [Era::Session, Era::Stateless] {
        let stub = Stub::start(Script::new(era));
        let lab = Lab::new();
        let (url, authority) = terminate(stub.address());
        let trusted = lab.write("authority.pem", &authority);
        let mut command = lab.command(bin("mws-proxy"));
        command.args(["--listen", "127.0.0.1:0", "--upstream", &url]);
        let proxy = Proxy::start({
            command.env("SSL_CERT_FILE", trusted);
            command
        });
        let peer = if era == Era::Session { Peer::session } else { Peer::stateless }(&proxy.url);
        let inner = json!({"name": "apple_pick", "arguments": {}});
        let answer = peer.call("call_tool", &inner);
        assert_eq!(answer["content"][0]["text"], "plain answer", "{era:?}: {answer}");
    }
}

#[test]
fn an_https_upstream_of_an_unknown_authority_is_refused() {
    let stub = Stub::start(Script::new(Era::Session));
    let lab = Lab::new();
    let (url, _) = terminate(stub.address());
    let (_, other) = terminate(stub.address());
    let mut command = lab.command(bin("mws-proxy"));
    command.env("SSL_CERT_FILE", lab.write("other.pem", &other));
    let done = finish(command.args(["--check", "--upstream", &url]), "");
    assert_eq!(done.code, 1);
    assert!(done.stdout.contains("certificate"), "{}", done.stdout);
    assert!(stub.seen().is_empty(), "a request reached a server that nobody vouched for");
}

/// Puts TLS in front of a plain server; the URL, and the authority to trust in PEM form.
fn terminate(plain: &str) -> (String, String) {
    let plain: SocketAddr = plain.parse().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = own.signed_by(&key, &authority).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(mut outside) = acceptor.accept(stream).await else { return };
                    let mut inside = TcpStream::connect(plain).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
                });
            }
        });
    });
    (format!("https://localhost:{port}/mcp"), authority.pem())
}
