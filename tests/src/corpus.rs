//! The messages of `fixtures/messages`, which must pass without a byte changed.
//!
//! Invariant: a line is a message as it goes over the wire, but for the marks that its file explains.
//! Deliberately absent: any reading of the messages.

use crate::lab::workspace;

/// A reply with the method that it answers and a name by which a stub finds it.
pub struct Probe {
    /// Method that it answers.
    pub method: String,
    /// A name as JSON text: the tool, prompt or resource that the request names.
    pub mark: String,
    /// The message; `$ID` is the request's id.
    pub message: String,
}

/// The lines of one file, without its notes.
#[must_use]
pub fn lines(file: &str) -> Vec<String> {
    let path = workspace().join("fixtures/messages").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// The replies of the file, and those that are too large or too deep to be written down.
#[must_use]
pub fn replies() -> Vec<Probe> {
    let mut all: Vec<(String, String)> = Vec::new();
    for line in lines("replies.txt") {
        let (method, message) = line.split_once(' ').unwrap();
        all.push((method.to_owned(), message.to_owned()));
    }
    let mut add = |method: &str, message: String| all.push((method.to_owned(), message));
    let wrap = |inner: &str| format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{inner}}}"#);
    let deep = format!("{}1{}", r#"{"a":["#.repeat(2500), "]}".repeat(2500));
    let large = format!(r#"{{"contents":[{{"text":"{}"}}]}}"#, "x".repeat(1 << 20));
    add("tools/call", wrap(&deep));
    add("resources/read", wrap(&large));
    add("tools/call", wrap(&format!(r#"{{"content":[{}1]}}"#, "1.0, ".repeat(100_000))));
    let pretty =
        " \r\n{\r\n  \"jsonrpc\": \"2.0\",\r\n  \"id\": $ID,\r\n  \"result\": {}\r\n}\r\n\r\n";
    add("tools/call", pretty.to_owned());
    let number = |(number, (method, message)): (usize, (String, String))| Probe {
        method,
        mark: format!("\"probe-{number}\""),
        message,
    };
    all.into_iter().enumerate().map(number).collect()
}

impl Probe {
    /// The name without its quotes.
    #[must_use]
    pub fn name(&self) -> &str {
        self.mark.trim_matches('"')
    }

    /// Whether it fits in one line, which is all that a pipe carries.
    #[must_use]
    pub fn is_one_line(&self) -> bool {
        !self.message.contains(['\n', '\r'])
    }
}
