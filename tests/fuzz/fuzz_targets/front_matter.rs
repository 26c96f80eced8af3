//! Front matter of skill files.
//!
//! Invariant: every name that it pins stands in the text.
//! Deliberately absent: finding the files.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| mws_promote::fuzz::front_matter(bytes));
