//! What `mws-ingest` has read, by client.
//!
//! Invariant: the numbers are those of `mws-ingest --stats`; nothing is counted here.
//! Deliberately absent: reading transcripts or the state of that program.

use std::process::{Command, Stdio};

use mws_cli::Common;

use super::{Finding, Level};
use crate::dispatch::find;

const WHAT: &str = "ingest";

/// One finding for each client of which something was read.
pub(super) fn stats(common: &Common) -> Vec<Finding> {
    let Some(program) = find("ingest") else {
        return vec![
            Finding::new(Level::Fail, WHAT, "mws-ingest is neither beside mws nor on PATH")
                .hint("install all six programs in one directory"),
        ];
    };
    let mut program = Command::new(program);
    program.args(crate::flags(common)).arg("--stats").stdin(Stdio::null()).stderr(Stdio::null());
    match program.output() {
        Ok(done) if done.status.success() => rows(&String::from_utf8_lossy(&done.stdout)),
        Ok(done) => vec![Finding::new(Level::Fail, WHAT, format!("mws-ingest: {}", done.status))],
        Err(e) => vec![Finding::new(Level::Fail, WHAT, format!("cannot run mws-ingest: {e}"))],
    }
}

/// The table's rows as findings; its first line names the columns.
fn rows(table: &str) -> Vec<Finding> {
    let findings: Vec<Finding> = table.lines().skip(1).filter_map(row).collect();
    if findings.is_empty() {
        return vec![
            Finding::new(Level::Warn, WHAT, "no transcript was read yet").hint("mws ingest"),
        ];
    }
    findings
}

fn row(line: &str) -> Option<Finding> {
    let mut cells = line.split_whitespace();
    let client = cells.next()?;
    let numbers = cells.map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
    let [files, bytes, calls, open, inferred, bad_lines, salvaged] = numbers[..] else {
        return None;
    };
    let text = format!(
        "{client}: {files} files, {} MB, {calls} calls, {open} open, {inferred} with an inferred \
         outcome, {bad_lines} damaged lines, {salvaged} records recovered",
        bytes / 1_000_000
    );
    (files > 0 || calls > 0).then(|| Finding::new(Level::Ok, WHAT, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_that_was_read_has_its_line() {
        let table = "client  files  bytes  calls  open  inferred  bad lines  salvaged\n\
                     claude-code  12  3400000  40  1  0  2  1\n\
                     codex  0  0  0  0  0  0  0\n";
        let texts: Vec<String> = rows(table).into_iter().map(|finding| finding.text).collect();
        assert_eq!(
            texts,
            ["claude-code: 12 files, 3 MB, 40 calls, 1 open, 0 with an inferred outcome, \
              2 damaged lines, 1 records recovered"]
        );
        assert_eq!(rows("client\ncodex  0  0  0  0  0  0  0\n")[0].level, Level::Warn);
    }
}
