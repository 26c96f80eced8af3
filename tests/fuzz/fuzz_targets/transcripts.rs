//! Transcripts of each client, plain and compressed.
//!
//! Invariant: reading a file in two parts shows what reading it at once does, wherever a line ends.
//! Deliberately absent: files and state; the readers are given bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| mws_ingest::fuzz::transcripts(bytes));
