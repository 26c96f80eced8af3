//! What the fuzz target asks of the transcript readers. Only built for it.
//!
//! Invariant: it panics when a promise of a reader is broken.
//! Deliberately absent: anything that a program or another test may call.

use std::path::Path;

use mws_event::Timestamp;

use crate::names::Names;
use crate::scan::{Tail, Window};
use crate::sighting::Batch;
use crate::sources::{SOURCES, Source, Task};

/// Reads a transcript of each client, at once and in two parts.
pub fn transcripts(bytes: &[u8]) {
    let names = Names::new(["toolbox", "my.box"], ["mail_send", "drive.list"]);
    let mut window = Window::new();
    for source in &SOURCES {
        let (used, whole) = read(source, &names, &mut window, bytes, Tail::default(), None);
        assert!(used <= bytes.len());
        let Some(middle) = memchr::memchr_iter(b'\n', bytes).nth(1) else { continue };
        let head = &bytes[..=middle];
        let (first, one) = read(source, &names, &mut window, head, Tail::default(), None);
        assert_eq!(first, head.len(), "whole lines are consumed");
        let line = head.split(|byte| *byte == b'\n').next().map(<[u8]>::to_vec);
        let line = line.filter(|_| source.wants_first_line);
        let tail = Tail::of(head);
        let (second, other) = read(source, &names, &mut window, &bytes[first..], tail, line);
        assert_eq!(first + second, used);
        let calls =
            |batch: &Batch| batch.calls.iter().map(|call| call.call_id.clone()).collect::<Vec<_>>();
        assert_eq!([calls(&one), calls(&other)].concat(), calls(&whole), "{}", source.name);
    }
}

fn read(
    source: &Source,
    names: &Names,
    window: &mut Window,
    mut bytes: &[u8],
    tail: Tail,
    first_line: Option<Vec<u8>>,
) -> (usize, Batch) {
    let (path, mtime) = (Path::new("/p/S.jsonl"), Timestamp::from_unix_ms(0));
    let task = Task { path, mtime, names, first_line };
    let (consumed, batch) =
        (source.read)(&task, &mut bytes, window, tail).expect("bytes can be read");
    let used = usize::try_from(consumed.bytes).expect("no more than there are");
    (used, batch)
}
