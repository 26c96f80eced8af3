//! A session client at either front of the proxy, with either kind of upstream behind it.
//!
//! Invariant: a test written against it sees the same messages on all four ways.
//! Deliberately absent: the stateless client, which has no session to set up.

use crate::lab::{Lab, Proxy, bin, eventually};
use crate::peer::Peer;
use crate::pipe::Pipe;
use crate::raw::RawStream;
use crate::script::Script;
use crate::stub::Stub;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(15);

/// A session client, the proxy and what is behind it.
pub struct Way {
    /// Which front and which upstream.
    pub name: String,
    /// The home of the proxy.
    pub lab: Lab,
    /// The upstream, where it is reached over HTTP.
    pub stub: Option<Stub>,
    /// The answer to `initialize`.
    pub opened: String,
    record: PathBuf,
    front: Front,
}

enum Front {
    Http { peer: Peer, proxy: Proxy, asked: Vec<RawStream>, stream: Option<RawStream> },
    Pipe { pipe: Box<Pipe>, unread: Vec<String> },
}

/// The four ways, each with a client of these capabilities in front of this upstream.
#[must_use]
pub fn ways(script: &Script, capabilities: &str) -> Vec<Way> {
    let sides = [("http", true), ("http", false), ("stdio", true), ("stdio", false)];
    let open = |(front, http): (&str, bool)| Way::open(front, http, script, capabilities);
    sides.into_iter().map(open).collect()
}

impl Way {
    fn open(front: &str, http: bool, script: &Script, capabilities: &str) -> Self {
        let lab = Lab::new();
        let record = lab.path("record");
        let script = Script { record: Some(record.clone()), ..script.clone() };
        let stub = http.then(|| Stub::start(script.clone()));
        let args = match &stub {
            Some(stub) => vec!["--upstream".to_owned(), stub.url.clone()],
            None => {
                let file = lab.write("script.json", &serde_json::to_string(&script).unwrap());
                let program = bin("mws-stub-stdio").display().to_string();
                vec!["--upstream-command".to_owned(), program, file.display().to_string()]
            }
        };
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let name = format!("{front} front, {} upstream", if http { "http" } else { "stdio" });
        let hello = initialize("2025-06-18", capabilities);
        let (front, opened) = if front == "http" {
            let proxy = lab.proxy(&args);
            let mut peer = Peer::stateless(&proxy.url);
            let reply = peer.post("initialize", None, &hello);
            peer.session = reply.header("mcp-session-id").map(str::to_owned);
            assert!(peer.session.is_some(), "{name}: {}", reply.text());
            let front = Front::Http { peer, proxy, asked: Vec::new(), stream: None };
            (front, reply.message())
        } else {
            let mut command: Command = lab.command(bin("mws-proxy"));
            command.arg("--stdio").args(&args);
            let mut pipe = Pipe::start(command);
            let opened = pipe.ask("0", &hello);
            (Front::Pipe { pipe: Box::new(pipe), unread: Vec::new() }, opened)
        };
        let mut way = Self { name, lab, stub, opened, record, front };
        way.tell(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        way
    }

    /// Sends a request and returns the message that answers it.
    pub fn ask(&mut self, id: &str, method: &str, params: &str) -> String {
        self.start(id, method, params);
        self.hear(&format!("\"id\":{id},"))
    }

    /// Sends a request whose answer is awaited later.
    pub fn start(&mut self, id: &str, method: &str, params: &str) {
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        match &mut self.front {
            Front::Http { peer, asked, .. } => asked.push(peer.open(method, None, &body)),
            Front::Pipe { pipe, .. } => pipe.send(&body),
        }
    }

    /// Sends what has no answer.
    pub fn tell(&mut self, body: &str) {
        match &mut self.front {
            Front::Http { peer, .. } => {
                let reply = peer.post("", None, body);
                assert_eq!((reply.status, reply.text().as_str()), (202, ""), "{body}");
            }
            Front::Pipe { pipe, .. } => pipe.send(body),
        }
    }

    /// The next message of the request sent last that contains this text.
    pub fn hear(&mut self, text: &str) -> String {
        match &mut self.front {
            Front::Http { asked, .. } => line_of(asked.last_mut().unwrap(), text, &self.name),
            Front::Pipe { pipe, unread } => next_of(pipe, unread, text, &self.name),
        }
    }

    /// Opens the stream of the session, where it is not open by itself.
    pub fn listen(&mut self) {
        if let Front::Http { peer, stream, .. } = &mut self.front {
            *stream = Some(peer.listen());
        }
    }

    /// The next message on the stream of the session that contains this text.
    pub fn notified(&mut self, text: &str) -> String {
        match &mut self.front {
            Front::Http { stream, .. } => line_of(stream.as_mut().unwrap(), text, &self.name),
            Front::Pipe { pipe, unread } => next_of(pipe, unread, text, &self.name),
        }
    }

    /// Hangs up on every request; false where that is not possible.
    pub fn hang_up(&mut self) -> bool {
        match &mut self.front {
            Front::Http { asked, .. } => {
                asked.clear();
                true
            }
            Front::Pipe { .. } => false,
        }
    }

    /// The client at the HTTP front.
    #[must_use]
    pub fn peer(&self) -> Option<&Peer> {
        match &self.front {
            Front::Http { peer, .. } => Some(peer),
            Front::Pipe { .. } => None,
        }
    }

    /// A client of another session at the HTTP front.
    #[must_use]
    pub fn peer_of(&self, session: &str) -> Peer {
        let Front::Http { proxy, .. } = &self.front else { panic!("{}: one session", self.name) };
        let mut peer = Peer::stateless(&proxy.url);
        peer.session = Some(session.to_owned());
        peer
    }

    /// What the upstream has received of this method, in order.
    #[must_use]
    pub fn received(&self, method: &str) -> Vec<String> {
        match &self.stub {
            Some(stub) => stub.seen_of(method).into_iter().map(|seen| seen.body).collect(),
            None => {
                let mark = format!("\"method\":\"{method}\"");
                let text = std::fs::read_to_string(&self.record).unwrap_or_default();
                text.lines().filter(|line| line.contains(&mark)).map(str::to_owned).collect()
            }
        }
    }

    /// Waits until the upstream has received this many messages of a method.
    #[must_use]
    pub fn receives(&self, method: &str, count: usize) -> bool {
        eventually(PATIENCE, || self.received(method).len() >= count)
    }

    /// True when the upstream learns within a moment that a request of a method is given up.
    #[must_use]
    pub fn gives_up_at_once(&self, method: &str) -> bool {
        std::thread::sleep(Duration::from_millis(300));
        match &self.stub {
            Some(stub) => stub.closed_of(method) > 0,
            None => !self.received("notifications/cancelled").is_empty(),
        }
    }

    /// Waits until the upstream knows that this many requests of a method are given up.
    #[must_use]
    pub fn gives_up(&self, method: &str, count: usize) -> bool {
        match &self.stub {
            Some(stub) => eventually(PATIENCE, || stub.closed_of(method) >= count),
            None => self.receives("notifications/cancelled", count),
        }
    }
}

/// An `initialize` under the id 0.
#[must_use]
pub fn initialize(version: &str, capabilities: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{capabilities},"clientInfo":{{"name":"suite","version":"1","n":1e2}}}}}}"#
    )
}

fn line_of(stream: &mut RawStream, text: &str, who: &str) -> String {
    let line = stream.line_with(text, PATIENCE);
    let line = line.unwrap_or_else(|| panic!("{who}: no message with {text}"));
    line.strip_prefix("data: ").unwrap_or(&line).to_owned()
}

// Messages of several requests share a pipe: what was not asked for yet is kept.
fn next_of(pipe: &mut Pipe, unread: &mut Vec<String>, text: &str, who: &str) -> String {
    if let Some(at) = unread.iter().position(|line| line.contains(text)) {
        return unread.remove(at);
    }
    loop {
        let line = pipe.next_line().unwrap_or_else(|| panic!("{who}: no line with {text}"));
        if line.contains(text) {
            return line;
        }
        unread.push(line);
    }
}
