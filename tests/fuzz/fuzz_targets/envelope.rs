//! The envelope of a message, and editing it in place.
//!
//! Invariant: only the named slices change, and what is written is JSON that reads back equal.
//! Deliberately absent: what the proxy answers; its own tests ask for that.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| mws_proxy::fuzz::envelope(bytes));
