//! Snapshots of the search index.
//!
//! Invariant: bytes that load answer any question; the checksum is made right, so that damage
//! gets past it. Deliberately absent: how good the answers are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mws_search::Index;
use xxhash_rust::xxh3::xxh3_64;

fuzz_target!(|bytes: &[u8]| {
    let _ = Index::from_snapshot(bytes);
    let Some((body, _)) = bytes.split_last_chunk::<8>() else { return };
    let mut sealed = body.to_vec();
    sealed.extend_from_slice(&xxh3_64(body).to_le_bytes());
    if let Ok(index) = Index::from_snapshot(&sealed) {
        for query in ["mail_send", "mail", "send a mail", "", "größer \u{202e}x"] {
            let found = index.rank(query, 10);
            assert!(found.tools.len() <= 10);
        }
        let _ = Index::from_snapshot(&index.to_snapshot()).expect("what loads can be written");
    }
});
