//! Snapshots of the search index.
//!
//! Invariant: bytes that load answer any question. The input is tried as a snapshot, and as changes to
//! a real one: place and value in turn. The checksum is made right, so that damage gets past it.
//! Deliberately absent: how good the answers are.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use mws_catalog::Catalog;
use mws_search::{Index, Options};
use xxhash_rust::xxh3::xxh3_64;

const CATALOG: &[u8] = br#"{"tools":[
    {"name":"mail_send","description":"Send a mail","inputSchema":{"type":"object","properties":
        {"to":{"type":"string","description":"who gets it"},"urgent":{"type":"boolean"}}}},
    {"name":"mail_list","description":"List the mails of a folder"},
    {"name":"drive_share_file","description":"Share a file with somebody"}]}"#;

static REAL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let (catalog, _) = Catalog::parse(CATALOG).expect("a catalog");
    Index::build(&catalog, &Options::default()).to_snapshot()
});

fuzz_target!(|bytes: &[u8]| {
    let _ = Index::from_snapshot(bytes);
    if let Some((body, _)) = bytes.split_last_chunk::<8>() {
        sealed(body.to_vec());
    }
    let mut changed = REAL[..REAL.len() - 8].to_vec();
    for change in bytes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % changed.len();
        changed[at] ^= change[2];
    }
    sealed(changed);
});

fn sealed(mut body: Vec<u8>) {
    body.extend_from_slice(&xxh3_64(&body).to_le_bytes());
    let Ok(index) = Index::from_snapshot(&body) else { return };
    for query in ["mail_send", "mail", "send a mail", "", "größer \u{202e}x"] {
        assert!(index.rank(query, 10).tools.len() <= 10);
    }
    Index::from_snapshot(&index.to_snapshot()).expect("what loads can be written");
}
