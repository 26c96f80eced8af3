//! The configuration file.
//!
//! Invariant: it is used or refused with a reason of one line.
//! Deliberately absent: reading the files it names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mws_config::{Places, parse};

fuzz_target!(|bytes: &[u8]| {
    let places = Places { home: "/home/u".into(), ..Places::default() };
    if let Err(why) = parse(bytes, &places) {
        assert!(!why.is_empty());
    }
});
