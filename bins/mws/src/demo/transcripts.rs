//! The sample transcripts, carried in the program and dated relative to today.
//!
//! Invariant: what is written holds no placeholder, and no time later than the day before.
//! Deliberately absent: anything about the transcript format; see `fixtures/README.md`.

use std::io;
use std::path::Path;

use mws_event::{DAY_MS, Timestamp};

/// Expands to pairs of a path and the text of that file.
macro_rules! samples {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../fixtures/transcripts/", $path)))),*]
    };
}

const SAMPLES: &[(&str, &str)] = samples![
    "-home-sam-office/015f7e6b-c5ae-4f48-a724-089e9252cc13.jsonl",
    "-home-sam-office/06f8faea-3b5f-4976-a1b6-d063a07ba4ff.jsonl",
    "-home-sam-office/3f524cdc-07a1-4d7c-a220-bdb049fe8dd4.jsonl",
    "-home-sam-office/493ea37c-8d7f-4bcb-ab5f-a4514ef7ceda.jsonl",
    "-home-sam-office/593df096-ebd5-49ae-a5f0-d5f24e0936c1.jsonl",
    "-home-sam-office/60c5590f-72ee-4292-a954-5afc28bf63ca.jsonl",
    "-home-sam-office/6ab9f1eb-8f7d-4388-a4f9-d586f66e99fd.jsonl",
    "-home-sam-office/879cc67a-846b-470c-a241-f1880f79e6ed.jsonl",
    "-home-sam-office/bb349f26-9976-4971-a94e-3cdd5847b128.jsonl",
    "-home-sam-office/c43a2fc9-c607-4392-ab2b-3004f46c9812.jsonl",
    "-home-sam-office/cbac233b-61bb-4210-af71-c1df4d9b0e46.jsonl",
    "-home-sam-office/e4ab4e3b-1493-45a9-a7b4-e51cdefbaa10.jsonl",
    "-home-sam-office/eb83f6c0-045c-4747-ab9c-067ede531358.jsonl",
    "-home-sam-office/f06dc74f-4de7-43a1-a34b-8fec0ca0b50a.jsonl",
    "-home-sam-parser/39297a0c-9073-4b01-a0ef-880adb6ce6e6.jsonl",
    "-home-sam-parser/55eae50b-75e2-4299-af2c-18be84ca0797.jsonl",
    "-home-sam-parser/d5bc18f5-9782-4210-af16-24cfa41f49fc.jsonl",
    "-home-sam-parser/d5bc18f5-9782-4210-af16-24cfa41f49fc/subagents/agent-a1f3c9d2.jsonl",
];

/// Writes the sample transcripts below `root`; returns how many files.
///
/// # Errors
/// When a file cannot be written.
pub(crate) fn write_samples(root: &Path, now: Timestamp) -> io::Result<usize> {
    for (path, text) in SAMPLES {
        let path = root.join(path);
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        mws_state::publish(&path, dated(text, now).as_bytes())?;
    }
    Ok(SAMPLES.len())
}

/// Replaces every string `"@-DdHH:MM:SS.mmmZ@"` by that time of the day D days before `now`.
fn dated(text: &str, now: Timestamp) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\"@-") {
        let Some((time, tail)) =
            after.split_once("@\"").and_then(|(token, tail)| Some((time_of(token, now)?, tail)))
        else {
            break;
        };
        out.push_str(before);
        out.push_str(&format!("\"{time}\""));
        rest = tail;
    }
    out + rest
}

/// The time that `DdHH:MM:SS.mmmZ` stands for.
fn time_of(token: &str, now: Timestamp) -> Option<String> {
    let (days, time) = token.split_once('d')?;
    let days: i64 = days.parse().ok()?;
    let midnight = Timestamp::from_unix_ms((now.day() - days) * DAY_MS);
    Some(format!("{}T{time}", midnight.date()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-11-29T00:00:01Z".parse().expect("a time")
    }

    #[test]
    fn placeholders_become_times_and_addresses_stay() {
        let line = r#"{"to":"a@example.com","timestamp":"@-3d09:14:07.512Z@"}"#;
        let want = r#"{"to":"a@example.com","timestamp":"2026-11-26T09:14:07.512Z"}"#;
        assert_eq!(dated(line, now()), want);
    }

    #[test]
    fn every_sample_is_whole_lines_of_json_with_past_times() {
        for (path, text) in SAMPLES {
            for line in dated(text, now()).lines() {
                let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
                let time = line["timestamp"].as_str().expect("a time");
                let time: Timestamp = time.parse().expect("RFC 3339");
                assert!(time < now(), "{path}: {time}");
            }
        }
    }
}
