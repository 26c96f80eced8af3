//! Hermetic harness: a lab with its own home, stub upstreams that can send any bytes, raw clients.
//!
//! Invariant: what a test sends and receives is bytes; no SDK stands between a test and the proxy
//! except where the SDK itself is the independent peer (`modern`, `suite`, and the programs that `real` finds).
//! Deliberately absent: assertions about the proxy (they are in `it/`), and any use of its code.
// A harness that cannot do its work is a failed test, so it stops at once and says where.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]
// Files of a lab are read by nobody else while they are written.
#![allow(clippy::disallowed_methods)]

pub mod asking;
pub mod conform;
pub mod corpus;
pub mod front;
pub mod lab;
pub mod modern;
pub mod peer;
pub mod pipe;
pub mod random;
pub mod raw;
pub mod real;
pub mod relay;
pub mod script;
pub mod servers;
pub mod stub;
pub mod suite;
