//! A server of the session protocol that asks its client things: over HTTP, over the older HTTP
//! transport with its two URLs, and on stdio.
//!
//! Invariant: what it asks and what it is answered goes out and is kept byte for byte.
//! Deliberately absent: checks. A client that asks for something odd gets it.

use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Where a message goes.
pub type Out = Arc<dyn Fn(&str) + Send + Sync>;

/// What the server remembers.
#[derive(Default)]
pub struct Asking {
    seen: Mutex<Vec<String>>,
    asked: Mutex<HashMap<String, Sender<String>>>,
    next: AtomicUsize,
    sessions: Mutex<HashSet<String>>,
    streams: Mutex<Vec<(String, Out)>>,
    older: bool,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    method: String,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
struct Call {
    #[serde(default)]
    name: String,
    #[serde(default)]
    arguments: Arguments,
}

#[derive(Deserialize, Default)]
struct Arguments {
    question: Option<Box<RawValue>>,
}

impl Asking {
    /// Every message that came, in order.
    #[must_use]
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// The messages that contain this.
    #[must_use]
    pub fn seen_with(&self, text: &str) -> Vec<String> {
        self.seen().into_iter().filter(|seen| seen.contains(text)).collect()
    }

    /// Forgets all sessions, as after a restart.
    pub fn forget(&self) {
        self.sessions.lock().unwrap().clear();
        self.streams.lock().unwrap().clear();
    }

    /// Serves Streamable HTTP, or the older transport, on a free port; the URL.
    #[must_use]
    pub fn serve(older: bool) -> (Arc<Self>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let path = if older { "sse" } else { "mcp" };
        let url = format!("http://{}/{path}", listener.local_addr().unwrap());
        let this = Arc::new(Self { older, ..Self::default() });
        let serving = Arc::clone(&this);
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                let this = Arc::clone(&serving);
                std::thread::spawn(move || this.exchange(socket));
            }
        });
        (this, url)
    }

    /// Takes in one message; what belongs to it goes to `own`, what belongs to nobody to `all`.
    pub fn take_in(&self, text: &str, own: &Out, all: &Out) {
        self.seen.lock().unwrap().push(text.to_owned());
        let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(text) else { return };
        let Some(id) = envelope.id.map(RawValue::get) else { return };
        if envelope.method.is_empty() {
            if let Some(waiting) = self.asked.lock().unwrap().remove(id) {
                let _ = waiting.send(text.to_owned());
            }
            return;
        }
        let params = envelope.params.map_or("{}", RawValue::get);
        match envelope.method.as_str() {
            "initialize" => own(&result(id, INITIALIZED)),
            "tools/list" => own(&result(id, TOOLS)),
            "tools/call" => self.call(id, params, own, all),
            "resources/read" => own(&error(id, -32002, "no such resource")),
            "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
                own(&result(id, "{}"));
            }
            _ => own(&error(id, -32601, "Method not found")),
        }
    }

    fn call(&self, id: &str, params: &str, own: &Out, all: &Out) {
        let call: Call = serde_json::from_str(params).unwrap_or_default();
        match call.name.as_str() {
            "ask" | "ask_aloud" => {
                let question = call.arguments.question.unwrap();
                let inner = question.get().trim_start_matches('{');
                let number = self.next.fetch_add(1, Ordering::SeqCst).to_string();
                let (sender, answer) = channel();
                self.asked.lock().unwrap().insert(number.clone(), sender);
                let to = if call.name == "ask" { own } else { all };
                to(&format!(r#"{{"jsonrpc":"2.0","id":{number},{inner}"#));
                let answer = answer.recv_timeout(Duration::from_secs(20)).unwrap_or_default();
                own(&result(id, &format!(r#"{{"content":[],"answer":{answer}}}"#)));
            }
            "log" => {
                for level in ["debug", "warning", "error"] {
                    own(&format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"{level}","data":1.10}}}}"#
                    ));
                }
                own(&result(id, r#"{"content":[]}"#));
            }
            "change" => {
                for what in ["tools/list_changed", "prompts/list_changed"] {
                    all(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/{what}"}}"#));
                }
                for uri in ["a://one", "a://two"] {
                    all(&format!(
                        r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{"uri":"{uri}","n":1.10}}}}"#
                    ));
                }
                own(&result(id, r#"{"content":[]}"#));
            }
            "url" if self.next.fetch_add(1, Ordering::SeqCst) == 0 => own(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32042,"message":"open it","data":{{"elicitations":[{{"mode":"url","elicitationId":"e","url":"http://127.0.0.1/x","message":"m"}}]}}}}}}"#
            )),
            "hang" => std::thread::sleep(Duration::from_secs(30)),
            _ => own(&result(id, r#"{"content":[{"type":"odd","n":1e2}]}"#)),
        }
    }

    fn exchange(&self, mut socket: TcpStream) {
        let mut reader = BufReader::new(socket.try_clone().unwrap());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let header = |name: &str| {
            head.lines().find_map(|line| {
                let (key, value) = line.split_once(": ")?;
                key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
            })
        };
        let mut body = vec![0; header("content-length").and_then(|n| n.parse().ok()).unwrap_or(0)];
        reader.read_exact(&mut body).unwrap();
        let text = String::from_utf8(body).unwrap();
        let get = head.starts_with("GET");
        if self.older {
            return self.older(&mut socket, &head, get, &text);
        }
        let known =
            header("mcp-session-id").filter(|id| self.sessions.lock().unwrap().contains(id));
        let opens = text.contains(r#""method":"initialize""#);
        match known {
            Some(session) if get => self.stream(&mut socket, session, ""),
            Some(session) if head.starts_with("POST") => self.post(&mut socket, &text, &session),
            None if opens => {
                let session = format!("s{}", self.sessions.lock().unwrap().len());
                self.sessions.lock().unwrap().insert(session.clone());
                self.post(&mut socket, &text, &session);
            }
            Some(_) => plain(&mut socket, "200 OK", ""),
            None if text.contains("server/discover") => plain(&mut socket, "400 Bad Request", ""),
            None => plain(&mut socket, "404 Not Found", "session not found"),
        }
    }

    fn post(&self, socket: &mut TcpStream, text: &str, session: &str) {
        let request = text.contains(r#""method""#) && text.contains(r#""id""#);
        let kind =
            if request { "200 OK\r\nContent-Type: text/event-stream" } else { "202 Accepted" };
        let head =
            format!("HTTP/1.1 {kind}\r\nMcp-Session-Id: {session}\r\nConnection: close\r\n\r\n");
        socket.write_all(head.as_bytes()).unwrap();
        let mut streams = self.streams.lock().unwrap().clone();
        streams.retain(|(of, _)| of == session);
        let all: Out = Arc::new(move |text| streams.iter().for_each(|(_, stream)| stream(text)));
        self.take_in(text, &events(socket), &all);
    }

    fn stream(&self, socket: &mut TcpStream, session: String, first: &str) {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n: hi\n\n{first}"
        );
        socket.write_all(head.as_bytes()).unwrap();
        self.streams.lock().unwrap().push((session, events(socket)));
        let _ = socket.read(&mut [0]);
    }

    fn older(&self, socket: &mut TcpStream, head: &str, get: bool, text: &str) {
        let target = head.split(' ').nth(1).unwrap_or_default();
        if get && target == "/sse" {
            let session = format!("s{}", self.next.fetch_add(1, Ordering::SeqCst));
            let first = format!("event: endpoint\ndata: /message?s={session}\n\n");
            return self.stream(socket, session, &first);
        }
        let session = target.strip_prefix("/message?s=").unwrap_or_default().to_owned();
        let found = self.streams.lock().unwrap().iter().find(|(of, _)| *of == session).cloned();
        let Some((_, out)) = found else {
            return plain(socket, "404 Not Found", "Cannot POST");
        };
        plain(socket, "202 Accepted", "");
        self.take_in(text, &out, &out);
    }
}

fn events(socket: &TcpStream) -> Out {
    let socket = Mutex::new(socket.try_clone().unwrap());
    Arc::new(move |text| {
        let event = format!("event: message\ndata: {text}\n\n");
        let _ = socket.lock().unwrap().write_all(event.as_bytes());
    })
}

fn plain(socket: &mut TcpStream, status: &str, body: &str) {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = socket.write_all(head.as_bytes());
}

fn result(id: &str, json: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{json}}}"#)
}

fn error(id: &str, code: i32, message: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
}

const INITIALIZED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{},"tasks":{}},"serverInfo":{"name":"asking","version":"1"}}"#;
const TOOLS: &str = r#"{"tools":[{"name":"ask","inputSchema":{"type":"object"}},{"name":"plain","inputSchema":{"type":"object"}}]}"#;
