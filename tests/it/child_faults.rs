//! Rows of the fault matrix about processes: the upstream's, and the proxy's own.
//!
//! Invariant: a server that misbehaves is a shell script, so each misbehaviour is visible in this file.
//! Deliberately absent: the table, which is in `upstream_faults`.

use mws_tests::lab::{Lab, Proxy, eventually};
use mws_tests::peer::Peer;
use mws_tests::script::{Era, Script};
use mws_tests::stub::Stub;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::upstream_faults::{call, is_error};

/// A session server; CALL stands for what it does with a call.
const SERVER: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while IFS= read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9][0-9]*\).*/\1/p')
  case $line in
    *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}' ;;
    *'"tools/list"'*) answer '{"tools":[{"name":"apple_pick","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*) CALL ;;
    *'cancelled'*) echo "$line" >> cancelled ;;
    *'"id"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
"#;
const PLAIN: &str = r#"answer '{"content":[{"type":"text","text":"plain answer"}]}'"#;

fn serve(lab: &Lab, timeout: u32, script: &str) -> Proxy {
    let upstream = json!({"command": "bash", "args": ["-c", script], "cwd": lab.path(""), "timeoutSeconds": timeout});
    lab.write(mws_tests::lab::CONFIG, &json!({"upstream": upstream}).to_string());
    lab.proxy(&[])
}

fn doing(what: &str) -> String {
    SERVER.replace("CALL", what)
}

fn is_gone(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat"));
    stat.map_or(true, |stat| stat.contains(") Z "))
}

fn read(lab: &Lab, file: &str) -> String {
    std::fs::read_to_string(lab.path(file)).unwrap_or_default()
}

pub(crate) fn hangs_on_call() {
    let lab = Lab::new();
    let proxy = serve(&lab, 1, &doing(":"));
    for peer in [Peer::stateless(&proxy.url), Peer::session(&proxy.url)] {
        let message = call(&peer);
        assert!(is_error(&message) && message.to_string().contains("in 1 s"), "{message}");
    }
    let told = || read(&lab, "cancelled").lines().count() == 2;
    assert!(eventually(Duration::from_secs(3), told), "{}", read(&lab, "cancelled"));
}

pub(crate) fn no_utf8() {
    let lab = Lab::new();
    let bad = r#"printf '{"jsonrpc":"2.0","id":%s,"result":"\xff"}\n' "$id""#;
    let proxy = serve(&lab, 300, &doing(bad));
    let begun = Instant::now();
    let message = call(&Peer::session(&proxy.url));
    assert!(is_error(&message) && message.to_string().contains("cannot be read"), "{message}");
    assert!(begun.elapsed() < Duration::from_secs(5), "took {:?}", begun.elapsed());
}

pub(crate) fn hostile_ids() {
    let lab = Lab::new();
    let hostile = r#"for bad in null 1 '"1"' -1 99999999999999999999999 '{}' 1e9; do printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"hostile"}]}}\n' "$bad"; done; printf '{"jsonrpc":"2.0","result":{}}\n'; "#;
    let twice = format!("{hostile} {PLAIN}; {PLAIN}");
    let proxy = serve(&lab, 300, &doing(&twice));
    let peer = Peer::session(&proxy.url);
    for _ in 0..3 {
        let message = call(&peer).to_string();
        assert!(message.contains("plain answer") && !message.contains("hostile"), "{message}");
    }
}

pub(crate) fn crash_loop() {
    let lab = Lab::new();
    let proxy = serve(&lab, 300, "echo start >> starts; echo no licence found >&2; exit 1");
    let peers = [Peer::stateless(&proxy.url), Peer::session(&proxy.url)];
    let begun = Instant::now();
    let mut last = serde_json::Value::Null;
    while begun.elapsed() < Duration::from_secs(20) {
        for peer in &peers {
            last = call(peer);
            assert!(is_error(&last), "{last}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let starts = read(&lab, "starts").lines().count();
    assert!((4..=7).contains(&starts), "{starts} starts in 20 s");
    assert!(last.to_string().contains("no licence found"), "{last}");
    assert!(last.to_string().contains("at the earliest"), "{last}");
}

pub(crate) fn slow_to_start() {
    let lab = Lab::new();
    let script = format!("echo start >> starts; sleep 4; {}", doing(PLAIN));
    let proxy = serve(&lab, 300, &script);
    let peers = [Peer::stateless(&proxy.url), Peer::stateless(&proxy.url)];
    std::thread::scope(|scope| {
        for peer in &peers {
            scope.spawn(|| assert!(call(peer).to_string().contains("plain answer")));
        }
    });
    let starts = read(&lab, "starts").lines().count();
    assert!(starts <= 2, "{starts} starts, and there are two protocols to ask for");
}

pub(crate) fn noise() {
    let lab = Lab::new();
    let flood = "head -c 20000000 /dev/zero | tr '\\0' 'x' >&2; echo 'Server ready!'; echo '[1,2]'; echo '{\"log\":1}'";
    let script = format!("{flood}\n{}", doing(&format!("{flood}; {PLAIN}")));
    let proxy = serve(&lab, 300, &script);
    let peer = Peer::session(&proxy.url);
    assert!(call(&peer).to_string().contains("plain answer"));
    assert!(proxy.stderr().len() < 10_000, "{} bytes of noise", proxy.stderr().len());
    assert!(proxy.memory("VmHWM") < 128 * 1024);
}

pub(crate) fn grandchildren() {
    let lab = Lab::new();
    let script = format!("sleep 600 & echo $! > grandchild; {}", doing(PLAIN));
    let mut proxy = serve(&lab, 300, &script);
    assert!(call(&Peer::session(&proxy.url)).to_string().contains("plain answer"));
    let pid = read(&lab, "grandchild");
    assert!(!is_gone(&pid), "there is no grandchild, so this proves nothing");
    assert_eq!(proxy.stop(), 0);
    assert!(eventually(Duration::from_secs(3), || is_gone(&pid)), "{pid} lives on");
}

pub(crate) fn proxy_is_killed() {
    let lab = Lab::new();
    // Neither the end of its input nor a polite signal ends it.
    let deaf = "echo $$ > child; trap '' TERM; exec 3<&0; while :; do sleep 0.2; done";
    let proxy = serve(&lab, 300, deaf);
    let started = || !read(&lab, "child").is_empty();
    assert!(eventually(Duration::from_secs(5), started));
    let pid = read(&lab, "child");
    assert!(!is_gone(&pid));
    drop(proxy);
    assert!(eventually(Duration::from_secs(3), || is_gone(&pid)), "{pid} outlives the proxy");
}

pub(crate) fn client_leaves() {
    let lab = Lab::new();
    let proxy = serve(&lab, 300, &doing("echo called >> called"));
    let peer = Peer::stateless(&proxy.url);
    let body = peer.body("1", "tools/call", r#"{"name":"apple_pick"}"#);
    let stream = peer.open("tools/call", Some("apple_pick"), &body);
    assert!(eventually(Duration::from_secs(5), || !read(&lab, "called").is_empty()));
    drop(stream);
    let told = || read(&lab, "cancelled").contains("requestId");
    assert!(eventually(Duration::from_secs(2), told), "the upstream is not told");
    let failed = || lab.calls("apple_pick").iter().any(|call| call["ok"] == false);
    assert!(eventually(Duration::from_secs(3), failed), "{:?}", lab.events());
    assert!(Peer::stateless(&proxy.url).tool_names().len() >= 2, "the upstream counts as bad");
}

pub(crate) fn told_to_end() {
    let lab = Lab::new();
    let script =
        format!("trap '' TERM; sleep 600 & echo $! > grandchild; {}; sleep 600", doing(":"));
    let mut proxy = serve(&lab, 300, &script);
    let peer = Peer::session(&proxy.url);
    let body = peer.body("1", "tools/call", r#"{"name":"apple_pick"}"#);
    let _hanging = peer.open("tools/call", Some("apple_pick"), &body);
    std::thread::sleep(Duration::from_millis(500));
    let begun = Instant::now();
    assert_eq!(proxy.stop(), 0);
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(9) && took < Duration::from_secs(11), "took {took:?}");
    let pid = read(&lab, "grandchild");
    assert!(eventually(Duration::from_secs(1), || is_gone(&pid)), "{pid} lives on");
}

pub(crate) fn sighup() {
    let stub = Stub::start(Script::new(Era::Both));
    let config = |pins: Value| json!({"upstream": {"url": stub.url}, "pins": pins}).to_string();
    let lab = Lab::new();
    lab.write(mws_tests::lab::CONFIG, &config(json!([])));
    let mut proxy = lab.proxy(&[]);
    let peers = [Peer::stateless(&proxy.url), Peer::session(&proxy.url)];
    let lists = |name: &str| peers.iter().all(|p| p.tool_names().contains(&name.to_owned()));
    assert!(!lists("apple_pick"));
    lab.write(mws_tests::lab::CONFIG, &config(json!(["apple_pick"])));
    proxy.signal(rustix::process::Signal::HUP);
    assert!(eventually(Duration::from_secs(5), || lists("apple_pick")), "{}", proxy.stderr());
    lab.write(mws_tests::lab::CONFIG, "{\"pins\": 5}");
    proxy.signal(rustix::process::Signal::HUP);
    let told = || proxy.stderr().contains("stays in force");
    assert!(eventually(Duration::from_secs(5), told), "{}", proxy.stderr());
    assert!(lists("apple_pick") && proxy.stderr().contains("pins"), "{}", proxy.stderr());
    assert!(peers.iter().all(|peer| call(peer).to_string().contains("plain answer")));
    assert_eq!(proxy.stop(), 0);
}
