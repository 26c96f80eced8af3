//! Upstream processes that start badly, die badly or leave something behind.
//!
//! Invariant: the server is a shell script, so each misbehaviour is visible in this file.
//! Deliberately absent: time limits of the proxy itself that are longer than a test may take.

use std::time::{Duration, Instant};

use mws_tests::lab::{Lab, Proxy, bin, eventually};
use mws_tests::peer::Peer;
use mws_tests::pipe::Pipe;
use mws_tests::script::{Act, Era, Script};
use mws_tests::stub::Stub;
use serde_json::{Value, json};

/// A session server: `slow` takes a second, `die` ends it, `told` says what it was told on stderr.
const SERVER: &str = r#"
while IFS= read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  case $line in
    *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) answer '{"tools":[{"name":"slow","inputSchema":{"type":"object"}},{"name":"die","inputSchema":{"type":"object"}}]}' ;;
    *'"slow"'*) sleep 1; answer '{"content":[{"type":"text","text":"slowly done"}]}' ;;
    *'"told"'*) echo "told $line" >&2; answer '{"content":[]}' ;;
    *'"die"'*) exit 1 ;;
    *'"id"'*) answer '{}' ;;
  esac
done
"#;

#[test]
fn a_call_under_way_is_answered_before_the_proxy_ends() {
    let lab = Lab::new();
    let mut proxy = serve(&lab, SERVER);
    let peer = Peer::session(&proxy.url);
    let answer = std::thread::scope(|scope| {
        let call = scope.spawn(|| peer.call("slow", &json!({})));
        assert!(eventually(Duration::from_secs(5), || lab.events().len() > 1));
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(proxy.stop(), 0);
        call.join().unwrap()
    });
    assert_eq!(answer["content"][0]["text"], "slowly done");
}

#[test]
fn what_one_client_sent_is_not_told_to_another_when_the_process_dies() {
    let lab = Lab::new();
    let proxy = serve(&lab, SERVER);
    let peer = Peer::session(&proxy.url);
    peer.call("told", &json!({"secret": "canary-7c2f"}));
    let died = peer.ask("tools/call", &json!({"name": "die"}));
    assert!(died["error"]["message"].as_str().unwrap().contains("ended"), "{died}");
    assert!(!died.to_string().contains("canary-7c2f"), "{died}");
    assert!(!proxy.stderr().contains("canary-7c2f"), "{}", proxy.stderr());
}

#[test]
fn a_process_that_cannot_start_is_explained_by_its_own_words() {
    let lab = Lab::new();
    let script = "echo no licence found >&2; exit 3";
    let done = lab.run("mws-proxy", &["--check", "--upstream-command", "bash", "-c", script]);
    assert_eq!(done.code, 1);
    assert!(done.stdout.contains("no licence found"), "{}", done.stdout);
}

#[test]
fn a_death_is_noticed_while_a_grandchild_holds_the_pipe() {
    let lab = Lab::new();
    let mark = lab.path("grandchild");
    let script = format!("sleep 600 & echo $! > {}\n{SERVER}", mark.display());
    let proxy = serve(&lab, &script);
    let peer = Peer::session(&proxy.url);
    let began = Instant::now();
    let died = peer.ask("tools/call", &json!({"name": "die"}));
    assert!(died["error"].is_object() && began.elapsed() < Duration::from_secs(5), "{died}");
    assert_ends(&mark);
}

#[test]
fn a_proxy_whose_process_never_answers_ends_soon_and_leaves_nothing() {
    let lab = Lab::new();
    let mark = lab.path("child");
    let script =
        format!("sleep 600 & echo $! > {}; trap '' TERM; cat >/dev/null; wait", mark.display());
    let mut proxy = serve(&lab, &script);
    assert!(eventually(Duration::from_secs(5), || mark.exists()));
    let began = Instant::now();
    assert_eq!(proxy.stop(), 0);
    assert!(began.elapsed() < Duration::from_secs(8), "took {:?}", began.elapsed());
    assert_ends(&mark);
}

#[test]
fn a_line_that_comes_in_pieces_is_one_message() {
    let lab = Lab::new();
    let mut command = lab.command(bin("mws-proxy"));
    command.args(["--stdio", "--upstream-command", "bash", "-c", SERVER]);
    let mut pipe = Pipe::start(command);
    pipe.ask("1", r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"p","version":"1"}}}"#);
    pipe.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"slow"}}"#);
    // The first call ends while the second line is on its way.
    pipe.send_piece(r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","#);
    std::thread::sleep(Duration::from_millis(1500));
    let answer = pipe.ask("3", r#""params":{"name":"slow"}}"#);
    assert!(answer.contains("slowly done"), "{answer}");
}

#[test]
fn a_deleted_catalog_is_written_again() {
    let lab = Lab::new();
    let proxy = serve(&lab, SERVER);
    let peer = Peer::session(&proxy.url);
    let file = lab.state("catalog.json");
    assert!(eventually(Duration::from_secs(5), || file.exists()));
    std::fs::remove_file(&file).unwrap();
    // A name that is not in the list makes the proxy look again, at most once in five seconds.
    let back = eventually(Duration::from_secs(9), || {
        peer.call("call_tool", &json!({"name": "no_such_tool"}));
        file.exists()
    });
    assert!(back, "{}", proxy.stderr());
}

#[test]
fn a_session_of_the_proxy_survives_restarts_of_the_upstream() {
    let script = || Script::new(Era::Session);
    let first = Stub::start(script());
    let (address, url) = (first.address().to_owned(), first.url.clone());
    drop(first);
    let lab = Lab::facing(&url);
    let proxy = lab.proxy(&[]);
    let peer = Peer::session(&proxy.url);
    for round in 0..2 {
        let _stub = Stub::start_at(&address, script());
        let answer = peer.ask("tools/call", &json!({"name": "apple_pick"}));
        assert!(answer.to_string().contains("plain answer"), "round {round}: {answer}");
    }
}

#[test]
fn a_stream_without_an_answer_is_answered_with_an_error_over_the_bridge() {
    let cut = Act::Stream(vec![": nothing\n\n".to_owned()]);
    let stub = Stub::start(Script::new(Era::Session).on("tools/call", "", cut));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let answer = Peer::stateless(&proxy.url).ask("tools/call", &json!({"name": "apple_pick"}));
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
}

#[test]
fn messages_that_are_none_are_refused() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":5}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
        r#"{"jsonrpc":"2.0"}"#,
    ] {
        let reply = peer.post("ping", None, body);
        let error: Value = serde_json::from_str(reply.text().as_ref()).unwrap();
        assert_eq!((reply.status, &error["error"]["code"]), (400, &json!(-32600)), "{body}");
    }
}

/// The process ends soon whose number was written to `mark`.
fn assert_ends(mark: &std::path::Path) {
    let pid = std::fs::read_to_string(mark).unwrap();
    let gone = || !std::path::Path::new("/proc").join(pid.trim()).exists();
    assert!(eventually(Duration::from_secs(5), gone), "the grandchild {pid} lives on");
}

fn serve(lab: &Lab, script: &str) -> Proxy {
    lab.proxy(&["--upstream-command", "bash", "-c", script])
}
