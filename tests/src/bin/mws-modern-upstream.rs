//! The official Rust SDK's server as a program: `mws-modern-upstream [--stdio | HOST:PORT]`.
//!
//! Invariant: over HTTP it prints `{"listening": URL}` once it is ready.
//! Deliberately absent: options that only one test would use.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use mws_tests::modern::{serve, serve_stdio};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    if address == "--stdio" {
        return serve_stdio().await;
    }
    let listener = std::net::TcpListener::bind(&address).unwrap();
    println!("{{\"listening\":\"http://{}/mcp\"}}", listener.local_addr().unwrap());
    serve(listener, true).await;
}
