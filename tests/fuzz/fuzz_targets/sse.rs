//! Server-sent events, split whatever the pieces in which they arrive.
//!
//! Invariant: the events put together are the stream, and the pieces change nothing.
//! Deliberately absent: connections.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| mws_proxy::fuzz::sse(bytes));
