//! Lines of the event log.
//!
//! Invariant: a line that is read can be written and read again as the same event.
//! Deliberately absent: files; the reader is given bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mws_event::Event;
use mws_state::{Damage, parse_events};

fuzz_target!(|bytes: &[u8]| {
    let (mut events, mut damage) = (Vec::new(), Damage::default());
    parse_events(bytes, |event| events.push(event), &mut damage).expect("bytes can be read");
    let lines = bytes.split(|byte| *byte == b'\n').count() as u64;
    assert!(events.len() as u64 + damage.bad_lines + damage.newer <= lines);
    for event in events {
        let line = event.to_line();
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        let again = Event::parse(&line).expect("what was written reads back");
        assert_eq!(again.to_line(), line, "and is written the same");
    }
});
