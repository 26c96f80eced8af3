//! The server of the conformance suite as a program: `mws-suite-upstream [--stateless] [--stdio | HOST:PORT]`.
//!
//! Invariant: over HTTP it prints `{"listening": URL}` once it is ready.
//! Deliberately absent: options that only one test would use.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use mws_tests::suite::Suite;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut words: Vec<_> = std::env::args().skip(1).collect();
    let stateless = words.first().is_some_and(|word| word == "--stateless");
    let suite = Suite::new(stateless);
    if words.last().is_some_and(|word| word == "--stdio") {
        return suite.serve_stdio().await;
    }
    let address = words.split_off(usize::from(stateless)).pop();
    let listener =
        std::net::TcpListener::bind(address.as_deref().unwrap_or("127.0.0.1:0")).unwrap();
    println!("{{\"listening\":\"http://{}/mcp\"}}", listener.local_addr().unwrap());
    suite.serve(listener).await;
}
