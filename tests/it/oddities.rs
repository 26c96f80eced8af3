//! Answers in forms that are rare and allowed: in other letters, in pieces, in haste.
//!
//! Invariant: a client gets what it would get without the proxy, and not one word more.
//! Deliberately absent: answers that no protocol allows; see the fault matrix.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use mws_tests::lab::{Lab, bin, eventually};
use mws_tests::peer::Peer;
use mws_tests::script::{Act, Era, Script};
use mws_tests::stub::Stub;
use serde_json::json;

const RESULT: &str = r#"{"resultType":"complete","content":[]}"#;
const CALL: &str = r#"{"name":"apple_pick","arguments":{}}"#;

#[test]
fn unusual_answers_arrive_as_they_are() {
    let json = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{RESULT}}}"#);
    let stream = |id: &str| format!("data: {}\n\n", json(id)).into_bytes();
    let rows: [(&str, &str, &str, Vec<u8>); 9] = [
        ("a type in capitals", "Content-Type: Application/JSON", "1", json("1").into()),
        ("a stream in capitals", "Content-Type: TEXT/Event-Stream", "1", stream("1")),
        (
            "a folded header",
            "X-Long: a\r\n  b\r\nContent-Type: application/json",
            "1",
            json("1").into(),
        ),
        ("a mark", STREAM, "1", [b"\xEF\xBB\xBF", &*stream("1")].concat()),
        ("no UTF-8", STREAM, "1", [b": \xFF\n", &*stream("1")].concat()),
        ("CR alone", STREAM, "1", format!("data: {}\r\r", json("1")).into()),
        ("an id in escapes", STREAM, r#""\u00e9/""#, stream(r#""é\/""#)),
        ("an id as a number of another form", STREAM, "1.0", stream("1")),
        ("compressed unasked", PACKED, "1", vec![0x1f, 0x8b, 8, 0, 1, 2, 3]),
    ];
    for (name, head, id, body) in rows {
        let lab = Lab::facing(&serve(head, &body));
        let proxy = lab.proxy(&[]);
        let peer = Peer::stateless(&proxy.url);
        let request = peer.body(id, "tools/call", CALL);
        let reply = peer.post("tools/call", Some("apple_pick"), &request);
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(reply.body, body, "{name}: {text}");
        let recorded = || lab.calls("apple_pick").iter().any(|call| call["ok"] == json!(true));
        assert!(eventually(Duration::from_secs(5), recorded), "{name}: {:?}", lab.events());
    }
}

const STREAM: &str = "Content-Type: text/event-stream";
const PACKED: &str = "Content-Type: text/event-stream\r\nContent-Encoding: gzip";

/// A stateless upstream that answers every call with this head and body, and then hangs up.
fn serve(head: &str, body: &[u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let head = format!("HTTP/1.1 200 OK\r\n{head}\r\nConnection: close\r\n\r\n");
    let call = Arc::new([head.as_bytes(), body].concat());
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let call = Arc::clone(&call);
            std::thread::spawn(move || answer(socket, &call, ""));
        }
    });
    url
}

/// Answers one request, or sends it from the path `/mcp` to `elsewhere`.
fn answer(mut socket: TcpStream, call: &[u8], elsewhere: &str) {
    let mut reader = BufReader::new(socket.try_clone().unwrap());
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line).unwrap();
    let moved = !elsewhere.is_empty() && line.split(' ').nth(1) == Some("/mcp");
    line.clear();
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        let lower = line.to_ascii_lowercase();
        length =
            lower.strip_prefix("content-length:").map_or(length, |n| n.trim().parse().unwrap());
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body = String::from_utf8(body).unwrap();
    if moved {
        let head = format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: {elsewhere}\r\n");
        let rest = "Content-Length: 0\r\nConnection: close\r\n\r\n";
        return socket.write_all(format!("{head}{rest}").as_bytes()).unwrap();
    }
    if body.contains("tools/call") {
        return socket.write_all(call).unwrap();
    }
    let (status, text) = match Script::new(Era::Stateless).answer(&body) {
        Some(Act::Message(text)) => (200, text),
        Some(Act::Status(status, text)) => (status, text),
        _ => (202, String::new()),
    };
    let head = format!("HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\n");
    let rest = format!("Content-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len());
    socket.write_all(format!("{head}{rest}").as_bytes()).unwrap();
}

#[test]
fn an_endpoint_is_found_where_its_host_says_and_on_no_other() {
    let message = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{RESULT}}}"#);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n";
    let call = format!("{head}{message}").into_bytes();
    let start = |elsewhere: &str| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (elsewhere, call) = (elsewhere.replace("OWN", &address), call.clone());
        std::thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                answer(socket, &call, &elsewhere);
            }
        });
        address
    };
    let other = format!("http://{}/mcp/", start(""));
    let rows = [("/mcp/", true), ("http://OWN/deep/mcp?x=1", true), (&*other, false)];
    for (elsewhere, found) in rows {
        let address = start(elsewhere);
        let lab = Lab::facing(&format!("http://{address}/mcp"));
        let proxy = lab.proxy(&[]);
        let peer = Peer::stateless(&proxy.url);
        let request = peer.body("1", "tools/call", CALL);
        let reply = peer.post("tools/call", Some("apple_pick"), &request);
        let text = String::from_utf8_lossy(&reply.body).into_owned();
        assert_eq!(text == message, found, "{elsewhere}: {text}");
    }
}

#[test]
fn a_process_that_says_much_at_once_is_heard_to_the_end() {
    const MANY: usize = 3000;
    let said = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1}}"#;
    let last = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}"#;
    let all = format!("{}{last}", format!("{said}\n").repeat(MANY));
    let script = Script::new(Era::Session).on("tools/call", "", Act::Message(all));
    let lab = Lab::new();
    let file = lab.write("script.json", &serde_json::to_string(&script).unwrap());
    let stub = bin("mws-stub-stdio").display().to_string();
    let proxy = lab.proxy(&["--upstream-command", &stub, &file.display().to_string()]);
    let peer = Peer::session(&proxy.url);
    let params = r#"{"name":"apple_pick","_meta":{"progressToken":"mine"}}"#;
    let messages = peer.post("tools/call", None, &peer.body("5", "tools/call", params)).messages();
    assert_eq!(messages.len(), MANY + 1);
    assert!(messages[..MANY].iter().all(|text| text.contains(r#""progressToken":"mine""#)));
}

#[test]
fn a_change_of_the_tools_is_heard_on_every_stream_and_in_any_pieces() {
    let word = r#"data: {"jsonrpc":"2.0","method":"notifications\/tools\/list"#;
    let pieces = vec![word.to_owned(), "_changed\"}\r\n\r".to_owned(), "\n".to_owned()];
    let answer = format!(r#"data: {{"jsonrpc":"2.0","id":$ID,"result":{RESULT}}}"#);
    let called = [pieces.clone(), vec![format!("{answer}\n\n")]].concat();
    for (method, act) in [("tools/call", Act::Stream(called)), ("GET", Act::Open(pieces))] {
        let stub = Stub::start(Script::new(Era::Session).on(method, "", act));
        let lab = Lab::facing(&stub.url);
        let proxy = lab.proxy(&[]);
        let peer = Peer::session(&proxy.url);
        let list = || peer.request("tools/list", &json!({}));
        list();
        assert_eq!(stub.seen_of("tools/list").len(), 1, "{method}");
        let mut stream = peer.listen();
        peer.call("apple_pick", &json!({}));
        let heard = method != "GET" || stream.read_until("_changed", Duration::from_secs(5));
        let again = eventually(Duration::from_secs(5), || {
            list();
            stub.seen_of("tools/list").len() > 1
        });
        assert!(heard && again, "{method}: {:?}", stub.seen_of("tools/list"));
    }
}

#[test]
fn a_subscription_may_be_silent_for_longer_than_an_answer() {
    let ack = r#"data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{}}}"#;
    let open = Act::Open(vec![format!("{ack}\n\n")]);
    let stub = Stub::start(Script::new(Era::Stateless).on("subscriptions/listen", "", open));
    let upstream = json!({"upstream": {"url": stub.url, "timeoutSeconds": 1}});
    let lab = Lab::with_config(&upstream);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    let body = peer.body("1", "subscriptions/listen", r#"{"notifications":{}}"#);
    let mut stream = peer.open("subscriptions/listen", None, &body);
    assert!(stream.read_until("acknowledged", Duration::from_secs(5)));
    assert!(!stream.read_until("did not answer", Duration::from_secs(3)), "{}", stream.text());
    assert_eq!(stub.closed_of("subscriptions/listen"), 0);
}

#[test]
fn an_upstream_that_hangs_up_without_a_word_loses_one_request_at_most() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let lab = Lab::facing(&format!("http://{}/mcp", listener.local_addr().unwrap()));
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || {
                let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{RESULT}}}"#);
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: ";
                let held = socket.try_clone().unwrap();
                answer(socket, format!("{head}{}\r\n\r\n{text}", text.len()).as_bytes(), "");
                // The next request comes meanwhile.
                std::thread::sleep(Duration::from_millis(2));
                drop(held);
            });
        }
    });
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    let request = peer.body("1", "tools/call", CALL);
    let call = || peer.post("tools/call", Some("apple_pick"), &request).text();
    let lost = (0..60).filter(|_| !call().contains("content")).count();
    assert!(lost <= 1, "{lost} of 60");
}
