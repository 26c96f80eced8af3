//! A stdio upstream without an SDK: `mws-stub-stdio SCRIPT`, where SCRIPT is a `Script` as JSON.
//!
//! Invariant: each line received is recorded before it is answered; lines go out byte for byte.
//! Deliberately absent: concurrency. A line is answered before the next one is read.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use mws_tests::script::{Act, Script};
use std::io::{BufRead, Write};

fn main() {
    let path = std::env::args().nth(1).unwrap_or_default();
    let script: Script = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut stdout = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        record(&script, &line);
        let lines = match script.answer(&line) {
            None | Some(Act::Hang) => continue,
            Some(Act::Drop) => return,
            Some(Act::Message(text) | Act::Status(_, text)) => vec![text],
            Some(Act::Stream(lines) | Act::Open(lines)) => lines,
        };
        for text in lines {
            stdout.write_all(text.as_bytes()).unwrap();
            stdout.write_all(b"\n").unwrap();
            stdout.flush().unwrap();
        }
    }
}

fn record(script: &Script, line: &str) {
    if let Some(path) = &script.record {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}
