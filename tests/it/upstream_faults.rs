//! The fault matrix: what each fault of an upstream does to a client, row by row.
//!
//! Invariant: each row is numbered as in the matrix and run against the real program; a call is
//! never sent twice unless it is proven that the first one was not carried out.
//! Deliberately absent: waits of minutes. Those are beside the code, on a virtual clock.

use mws_tests::lab::{Lab, Proxy, eventually, free_port};
use mws_tests::peer::Peer;
use mws_tests::relay::{Relay, Spoil};
use mws_tests::script::{Act, Era, Script, result};
use mws_tests::stub::Stub;
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use crate::child_faults as child;

type Row = (u8, &'static str, fn());

const ROWS: &[Row] = &[
    (1, "dead at the start", dead_at_start),
    (2, "dies during a call", dies_during_a_call),
    (3, "hangs on the list", hangs_on_list),
    (4, "hangs on a call", hangs_on_call),
    (4, "hangs on a call, process", child::hangs_on_call),
    (5, "drips", drips),
    (6, "restarts", restarts),
    (7, "words about sessions", words_about_sessions),
    (8, "a page instead of JSON", page),
    (9, "refuses the proxy", refuses),
    (10, "too many requests", too_many),
    (11, "errors on the list", errors_on_list),
    (12, "a stream that ends early", stream_ends_early),
    (12, "a stream that is cut", stream_is_cut),
    (12, "JSON that is cut", json_is_cut),
    (13, "an endless answer", endless_answer),
    (14, "no UTF-8", child::no_utf8),
    (15, "hostile ids", child::hostile_ids),
    (16, "one bad tool", one_bad_tool),
    (17, "pages without end", pages_without_end),
    (18, "a crash loop", child::crash_loop),
    (19, "slow to start", child::slow_to_start),
    (20, "noise", child::noise),
    (21, "grandchildren", child::grandchildren),
    (21, "the proxy is killed", child::proxy_is_killed),
    (22, "the client leaves", child::client_leaves),
    (23, "told to end", child::told_to_end),
    (24, "SIGHUP", child::sighup),
];

#[test]
fn every_row_of_the_matrix_holds() {
    let next = std::sync::Mutex::new(ROWS.iter());
    let failed = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some((number, name, row)) = next.lock().unwrap().next() else { return };
                    let held = std::panic::catch_unwind(row).is_ok();
                    println!("row {number:2} {name}: {}", if held { "ok" } else { "FAILED" });
                    if !held {
                        failed.lock().unwrap().push((number, name));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "rows that do not hold: {failed:?}");
    let numbers: std::collections::BTreeSet<_> = ROWS.iter().map(|row| row.0).collect();
    assert!((1..=24).all(|number| numbers.contains(&number)), "a row is missing: {numbers:?}");
}

pub(crate) fn is_error(message: &Value) -> bool {
    message["error"]["code"] == -32000
}

pub(crate) fn call(peer: &Peer) -> Value {
    peer.ask("tools/call", &json!({"name": "apple_pick", "arguments": {}}))
}

fn within<T>(limit: Duration, what: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let done = what();
    assert!(begun.elapsed() < limit, "took {:?}, not {limit:?}", begun.elapsed());
    done
}

/// A lab behind a relay, both eras in turn.
fn relayed(script: impl Fn(Era) -> Script, test: impl Fn(&Peer, &Relay, &Stub, &Proxy)) {
    for era in [Era::Stateless, Era::Session] {
        let stub = Stub::start(script(era));
        let relay = Relay::to(stub.address());
        let lab = Lab::facing(&relay.url);
        let proxy = lab.proxy(&[]);
        let peer = match era {
            Era::Session => Peer::session(&proxy.url),
            _ => Peer::stateless(&proxy.url),
        };
        assert_eq!(peer.tool_names()[..2], ["search_tools", "call_tool"]);
        test(&peer, &relay, &stub, &proxy);
    }
}

fn dead_at_start() {
    let lab = Lab::facing(&format!("http://127.0.0.1:{}/mcp", free_port()));
    let proxy = within(Duration::from_secs(3), || lab.proxy(&[]));
    let peer = Peer::stateless(&proxy.url);
    let names = within(Duration::from_secs(6), || peer.tool_names());
    assert_eq!(names, ["search_tools", "call_tool"]);
}

fn dies_during_a_call() {
    relayed(Script::new, |peer, relay, stub, _| {
        relay.spoil(Spoil::Close);
        let before = stub.seen_of("tools/call").len();
        let message = within(Duration::from_secs(3), || call(peer));
        assert!(is_error(&message), "{message}");
        let came = stub.seen_of("tools/call").len() - before;
        assert!(came <= 1, "the call was sent {came} times");
        relay.spoil(Spoil::Pass);
        assert!(call(peer).to_string().contains("plain answer"));
    });
}

fn hangs_on_list() {
    let stub = Stub::start(Script::new(Era::Stateless).on("tools/list", "", Act::Hang));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let peers: Vec<_> = (0..3).map(|_| Peer::stateless(&proxy.url)).collect();
    within(Duration::from_secs(8), || {
        std::thread::scope(|scope| {
            for peer in &peers {
                scope.spawn(|| assert_eq!(peer.tool_names(), ["search_tools", "call_tool"]));
            }
        });
    });
    assert_eq!(stub.seen_of("tools/list").len(), 1, "one refresh at a time");
    assert!(call(&peers[0]).to_string().contains("plain answer"));
}

fn hangs_on_call() {
    for era in [Era::Stateless, Era::Session] {
        let stub = Stub::start(Script::new(era).on("tools/call", "", Act::Hang));
        let upstream = json!({"url": stub.url, "timeoutSeconds": 1});
        let lab = Lab::with_config(&json!({"upstream": upstream}));
        let proxy = lab.proxy(&[]);
        for peer in [Peer::stateless(&proxy.url), Peer::session(&proxy.url)] {
            let message = within(Duration::from_secs(5), || call(&peer));
            assert!(is_error(&message) && message.to_string().contains("in 1 s"), "{message}");
        }
    }
}

fn drips() {
    relayed(Script::new, |peer, relay, stub, proxy| {
        stub.play(Script::new(Era::Both).on("tools/list", "", result(r#"{"tools":[]}"#)));
        relay.spoil(Spoil::Drip(Duration::from_secs(1)));
        let fresh = Peer::stateless(&proxy.url);
        within(Duration::from_secs(6), || fresh.tool_names());
        relay.spoil(Spoil::Pass);
        within(Duration::from_secs(6), || peer.tool_names());
    });
}

fn restarts() {
    let first = Stub::start(Script::new(Era::Session));
    let address = first.address().to_owned();
    let lab = Lab::facing(&first.url);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    assert!(call(&peer).to_string().contains("plain answer"));
    drop(first);
    let lost = Act::Status(
        404,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#
            .into(),
    );
    let second = Stub::start_at(&address, Script::new(Era::Session).on("tools/call", "", lost));
    let message = call(&peer);
    assert!(is_error(&message), "{message}");
    assert_eq!(second.seen_of("initialize").len(), 1, "opened anew once");
    second.play(Script::new(Era::Session));
    assert!(call(&peer).to_string().contains("plain answer"));
}

fn words_about_sessions() {
    let answer = |id: &str, code: i32, words: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{words}"}}}}"#)
    };
    for (status, body, sent) in [
        (404, answer("null", -32001, "Session not found"), 2),
        (404, answer("$ID", -32001, "Session not found"), 2),
        (404, "no such session".to_owned(), 2),
        (404, answer("$ID", -32601, "no such method"), 1),
        (404, answer("$ID", -32000, "no such file"), 1),
        (400, answer("null", -32000, "Bad Request: No valid session ID provided"), 2),
        (400, answer("$ID", -32602, "a session of this kind cannot be booked twice"), 1),
        (503, answer("null", -32000, "session store is away"), 1),
        (500, answer("$ID", -32000, "session"), 1),
    ] {
        let stub = Stub::start(Script::new(Era::Session));
        let lab = Lab::facing(&stub.url);
        let proxy = lab.proxy(&[]);
        let peer = Peer::stateless(&proxy.url);
        peer.tool_names();
        let act = Act::Status(status, body.clone());
        stub.play(Script::new(Era::Session).on("tools/call", "", act));
        let message = call(&peer);
        assert!(message["error"].is_object(), "{status} {body}: {message}");
        assert_eq!(stub.seen_of("tools/call").len(), sent, "{status} {body}: sent upstream");
    }
}

/// An upstream of bytes: it answers every request with these.
fn raw_upstream(answer: impl Fn(&mut std::net::TcpStream) + Send + Sync + 'static) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let answer = std::sync::Arc::new(answer);
    std::thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            let answer = std::sync::Arc::clone(&answer);
            std::thread::spawn(move || {
                let mut buffer = [0; 65_536];
                if socket.read(&mut buffer).is_ok_and(|count| count > 0) {
                    answer(&mut socket);
                }
            });
        }
    });
    url
}

fn page() {
    let url = raw_upstream(|socket| {
        let page = "<html>canary-page</html>";
        let head = "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nConnection: close";
        let _ = write!(socket, "{head}\r\nContent-Length: {}\r\n\r\n{page}", page.len());
    });
    let lab = Lab::with_config(&json!({"upstream": {"url": url, "protocol": "2026-07-28"}}));
    let proxy = lab.proxy(&[]);
    let message = call(&Peer::stateless(&proxy.url));
    assert!(is_error(&message) && message.to_string().contains("502"), "{message}");
    assert!(!message.to_string().contains("canary-page"), "{message}");
}

fn refuses() {
    for (status, most) in [(401, 3), (403, 8)] {
        let stub = Stub::start(Script::new(Era::Stateless));
        let refusal = Act::Status(status, "{}".into());
        let all = ["server/discover", "initialize", "tools/list", "tools/call"];
        let script = all.iter().fold(Script::new(Era::Stateless), |script, method| {
            script.on(method, "", refusal.clone())
        });
        stub.play(script);
        let lab = Lab::facing(&stub.url);
        let proxy = lab.proxy(&[]);
        let peer = Peer::stateless(&proxy.url);
        for _ in 0..30 {
            peer.tool_names();
            let message = call(&peer);
            assert!(is_error(&message) && message.to_string().contains("HTTP"), "{message}");
        }
        let came = stub.seen().len();
        assert!((1..=most).contains(&came), "{status}: {came} requests came");
        stub.play(Script::new(Era::Stateless));
        proxy.signal(rustix::process::Signal::HUP);
        let back = || call(&peer).to_string().contains("plain answer");
        assert!(eventually(Duration::from_secs(5), back), "{}", proxy.stderr());
    }
}

fn too_many() {
    relayed(Script::new, |peer, _, stub, _| {
        let limit = r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32000,"message":"slow down"}}"#;
        stub.play(Script::new(Era::Both).on("tools/call", "", Act::Status(429, limit.into())));
        let before = stub.seen_of("tools/call").len();
        let reply = peer.request("tools/call", &json!({"name": "apple_pick"}));
        assert!(reply.text().contains("slow down"), "{} {}", reply.status, reply.text());
        assert_eq!(stub.seen_of("tools/call").len() - before, 1, "tried again at once");
    });
}

fn errors_on_list() {
    let broken = Act::Status(500, "{}".into());
    let stub = Stub::start(Script::new(Era::Stateless).on("tools/list", "", broken));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        assert_eq!(peer.tool_names(), ["search_tools", "call_tool"]);
    }
    let asked = stub.seen_of("tools/list").len();
    assert!((2..=5).contains(&asked), "asked {asked} times in four seconds");
}

fn stream_ends_early() {
    let cut = |era| {
        let notice = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n";
        Script::new(era).on("tools/call", "plum_dry", Act::Stream(vec![notice.into()]))
    };
    relayed(cut, |peer, _, _, _| {
        let reply = peer.request("tools/call", &json!({"name": "plum_dry"}));
        assert_eq!(reply.messages().len(), 2, "{}", reply.text());
        let message: Value = serde_json::from_str(&reply.message()).unwrap();
        assert!(is_error(&message), "{message}");
        assert!(call(peer).to_string().contains("plain answer"), "another call is hurt");
    });
}

fn stream_is_cut() {
    let long = |era| {
        let answer = format!(
            "data: {{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{}\"}}]}}}}\n\n",
            "x".repeat(5000)
        );
        Script::new(era).on("tools/call", "plum_dry", Act::Stream(vec![answer]))
    };
    relayed(long, |peer, relay, _, _| {
        relay.spoil(Spoil::Cut(1500));
        let reply = peer.request("tools/call", &json!({"name": "plum_dry"}));
        let message: Value = serde_json::from_str(&reply.message()).unwrap();
        assert!(is_error(&message), "{message}");
        assert!(reply.text().contains("\nevent: cut\n\n"), "{}", reply.text());
    });
}

fn json_is_cut() {
    let long = |era| {
        let text = format!(r#"{{"content":[{{"type":"text","text":"{}"}}]}}"#, "x".repeat(5000));
        Script::new(era).on("tools/call", "plum_dry", result(&text))
    };
    relayed(long, |peer, relay, stub, _| {
        relay.spoil(Spoil::Cut(1500));
        let message = peer.ask("tools/call", &json!({"name": "plum_dry"}));
        assert!(is_error(&message), "{message}");
        assert_eq!(stub.seen_of("tools/call").len(), 1, "sent again though it had run");
    });
}

fn endless_answer() {
    const MIB: usize = 300;
    let url = raw_upstream(|socket| {
        let head =
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked";
        let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
        let mut sent = write!(socket, "{head}\r\n\r\n");
        for _ in 0..MIB {
            sent = sent.and_then(|()| socket.write_all(chunk.as_bytes()));
        }
    });
    let lab = Lab::with_config(&json!({"upstream": {"url": url, "protocol": "2026-07-28"}}));
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    assert_eq!(peer.tool_names(), ["search_tools", "call_tool"]);
    let body = peer.body("1", "tools/call", r#"{"name":"apple_pick"}"#);
    let mut stream = peer.open("tools/call", Some("apple_pick"), &body);
    let _ = stream.read_until("there is no end", Duration::from_millis(1500));
    let peak = proxy.memory("VmHWM");
    assert!(peak < 256 * 1024, "{peak} KiB at the most");
    drop(stream);
    assert_eq!(peer.tool_names(), ["search_tools", "call_tool"]);
}

fn one_bad_tool() {
    let tools = r#"[{"name":"apple_pick","inputSchema":{"type":"object"}},{"inputSchema":{}},{"name":7},{"name":"a\u0007b","inputSchema":{"type":"object"}},{"name":"plum_dry","inputSchema":{"type":"object"}}]"#;
    let stub = Stub::start(Script::new(Era::Stateless).tools(tools));
    let config =
        json!({"upstream": {"url": stub.url}, "pins": ["apple_pick", "plum_dry", "a\u{7}b"]});
    let lab = Lab::with_config(&config);
    let proxy = lab.proxy(&[]);
    let names = Peer::stateless(&proxy.url).tool_names();
    assert_eq!(names, ["search_tools", "call_tool", "apple_pick", "plum_dry"]);
}

fn pages_without_end() {
    let list =
        r#"{"tools":[{"name":"apple_pick","inputSchema":{"type":"object"}}],"nextCursor":"again"}"#;
    let stub = Stub::start(Script::new(Era::Stateless).on("tools/list", "", result(list)));
    let lab = Lab::with_config(&json!({"upstream": {"url": stub.url}, "pins": ["pear_peel"]}));
    lab.write_state("catalog.json", r#"{"tools":[]}"#);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    assert_eq!(peer.tool_names(), ["search_tools", "call_tool"]);
    let asked = || stub.seen_of("tools/list").len();
    assert!(eventually(Duration::from_secs(5), || asked() > 0), "never asked");
    std::thread::sleep(Duration::from_millis(500));
    assert!(asked() <= 6, "asked for {} pages", asked());
}
