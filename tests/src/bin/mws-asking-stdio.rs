//! The asking server on stdio: `mws-asking-stdio RECORD`, where what it receives is written.
//!
//! Invariant: each message is answered in its own time; a question does not hold up the next line.
//! Deliberately absent: everything that the library has.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use mws_tests::asking::{Asking, Out};
use std::io::{BufRead, Write};
use std::sync::Arc;

fn main() {
    let path = std::env::args().nth(1).unwrap_or_default();
    let server = Arc::new(Asking::default());
    let out: Out = Arc::new(|text| {
        let mut stdout = std::io::stdout().lock();
        let _ = stdout.write_all(format!("{text}\n").as_bytes());
        let _ = stdout.flush();
    });
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
        file.write_all(format!("{} {line}\n", std::process::id()).as_bytes()).unwrap();
        let (server, out) = (Arc::clone(&server), Arc::clone(&out));
        std::thread::spawn(move || server.take_in(&line, &out, &out));
    }
}
