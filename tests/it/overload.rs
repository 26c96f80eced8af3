//! More than there is room for: what is too much is refused, and who behaves well is served.
//!
//! Invariant: nothing is left waiting without an answer, and memory and descriptors stay bounded.
//! Deliberately absent: speed. A time limit here is many times what is usual.

use mws_tests::lab::{Lab, Proxy, bin, eventually};
use mws_tests::peer::Peer;
use mws_tests::raw::RawReply;
use mws_tests::script::{Act, Era, Script};
use mws_tests::stub::Stub;
use serde_json::json;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const LIMIT: u64 = 256 * 1024;

/// As long as the promise is about, where that is asked for.
fn heavy() -> bool {
    std::env::var_os("MWS_HEAVY").is_some()
}

fn is_shed(reply: &RawReply) -> bool {
    reply.status == 503 && reply.text().contains("-32000") && reply.header("retry-after").is_some()
}

/// Waits of a client that calls so often, the longest last.
fn waits(peer: &Peer, tool: &str, calls: usize) -> Vec<Duration> {
    let mut waits: Vec<_> = (0..calls)
        .map(|_| {
            let begun = Instant::now();
            peer.call(tool, &json!({"query": "fruit"}));
            begun.elapsed()
        })
        .collect();
    waits.sort();
    waits
}

fn p99(waits: &[Duration]) -> Duration {
    waits[(waits.len() * 99 / 100).min(waits.len() - 1)]
}

#[test]
fn two_thousand_calls_at_once_are_answered_or_refused() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    Peer::stateless(&proxy.url).tool_names();
    let (answered, shed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let text = "x".repeat(1024);
    std::thread::scope(|scope| {
        for _ in 0..2000 {
            let call = || {
                let peer = Peer::stateless(&proxy.url);
                let call = json!({"name": "apple_pick", "arguments": {"text": text}});
                let reply = peer.request("tools/call", &call);
                match reply.status {
                    200 if reply.text().contains("plain answer") => &answered,
                    _ if is_shed(&reply) => &shed,
                    status => panic!("{status}: {}", reply.text()),
                }
                .fetch_add(1, Ordering::Relaxed)
            };
            std::thread::Builder::new().stack_size(256 * 1024).spawn_scoped(scope, call).unwrap();
        }
    });
    let (answered, shed) = (answered.into_inner(), shed.into_inner());
    let peak = proxy.memory("VmHWM");
    println!("{answered} answered, {shed} refused, {peak} KiB at the most");
    assert_eq!(answered + shed, 2000);
    assert!(answered >= 500 && peak < LIMIT, "{answered} answered, {peak} KiB");
}

#[test]
fn idle_sockets_and_half_heads_keep_nobody_out() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    let alone = p99(&waits(&peer, "apple_pick", 50));
    let sockets: Vec<_> = (0..512)
        .map(|i| {
            let mut socket = TcpStream::connect(proxy.address()).unwrap();
            if i % 2 == 0 {
                socket.write_all(b"POST /mcp HTTP/1.1\r\nHost: ").unwrap();
            }
            socket
        })
        .collect();
    let crowded = p99(&waits(&peer, "apple_pick", 100));
    println!("p99 {alone:?} alone, {crowded:?} beside 512 idle sockets");
    assert!(crowded < Duration::from_secs(1), "{crowded:?}, {alone:?} alone");
    let all_closed = || {
        sockets.iter().all(|mut socket| {
            socket.set_nonblocking(true).unwrap();
            matches!(socket.read(&mut [0; 8]), Ok(0))
        })
    };
    assert!(eventually(Duration::from_secs(20), all_closed), "half a head is waited for");
}

#[test]
fn open_streams_leave_room_for_requests() {
    let stub = Stub::start(Script::new(Era::Session));
    let script = serde_json::to_string(&Script::new(Era::Session)).unwrap();
    drop(stub);
    let lab = Lab::new();
    let file = lab.write("script.json", &script).display().to_string();
    let server = bin("mws-stub-stdio").display().to_string();
    let proxy = lab.proxy(&["--upstream-command", &server, &file]);
    let peer = Peer::session(&proxy.url);
    let head = format!(
        "GET /mcp HTTP/1.1\r\nHost: {}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {}\r\n\r\n",
        proxy.address(),
        peer.session.as_deref().unwrap()
    );
    let (mut open, mut refused) = (Vec::new(), 0);
    for _ in 0..700 {
        let mut socket = TcpStream::connect(proxy.address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.write_all(head.as_bytes()).unwrap();
        let mut status = [0; 12];
        socket.read_exact(&mut status).unwrap();
        match &status {
            b"HTTP/1.1 200" => open.push(socket),
            b"HTTP/1.1 503" => refused += 1,
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
    }
    println!("{} streams open, {refused} refused", open.len());
    assert!(refused > 0 && open.len() >= 100, "{} open, {refused} refused", open.len());
    let begun = Instant::now();
    assert!(peer.call("apple_pick", &json!({})).to_string().contains("plain answer"));
    assert!(begun.elapsed() < Duration::from_secs(5), "took {:?}", begun.elapsed());
}

#[test]
fn few_descriptors_are_enough_for_who_behaves_well() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::facing(&stub.url);
    let mut command = lab.command("bash");
    command.args(["-c", "ulimit -n 64; exec \"$0\" --listen 127.0.0.1:0"]).arg(bin("mws-proxy"));
    let proxy = Proxy::start(command);
    let peer = Peer::stateless(&proxy.url);
    peer.tool_names();
    let sockets: Vec<_> = (0..200).map(|_| TcpStream::connect(proxy.address()).unwrap()).collect();
    let waits = waits(&peer, "apple_pick", 50);
    println!("p99 {:?} with 64 descriptors and 200 sockets", p99(&waits));
    assert!(p99(&waits) < Duration::from_secs(1), "{:?}", p99(&waits));
    assert!(proxy.descriptors() < 64);
    drop(sockets);
    assert!(eventually(Duration::from_secs(5), || proxy.descriptors() < 30));
    let logged = || lab.calls("apple_pick").len() == 50;
    assert!(eventually(Duration::from_secs(5), logged), "the log had no descriptor left");
}

#[test]
fn deep_and_wide_json_stay_within_memory() {
    let stub = Stub::start(Script::new(Era::Stateless));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&[]);
    let peer = Peer::stateless(&proxy.url);
    peer.tool_names();
    let size = 3 << 20;
    let deep = format!("{}{}", "[".repeat(size / 2), "]".repeat(size / 2));
    let wide = format!("[{}0]", "{},".repeat(size / 3));
    let many = format!("{{{}\"z\":0}}", "\"a\":0,".repeat(size / 6));
    let mut beside = Vec::new();
    std::thread::scope(|scope| {
        let mut sending = Vec::new();
        for value in [&deep, &wide, &many].into_iter().cycle().take(12) {
            let proxy = &proxy;
            sending.push(scope.spawn(move || {
                let peer = Peer::stateless(&proxy.url);
                let params = format!(r#"{{"name":"apple_pick","arguments":{{"x":{value}}}}}"#);
                let body = peer.body("1", "tools/call", &params);
                let reply = peer.post("tools/call", Some("apple_pick"), &body);
                assert!(reply.status == 200 || is_shed(&reply), "{}", reply.status);
            }));
        }
        while !sending.iter().all(|sending| sending.is_finished()) {
            // Answered by the proxy itself: the stub reads slowly.
            beside.extend(waits(&peer, "search_tools", 1));
        }
    });
    beside.sort();
    println!("{} calls beside them, p99 {:?}", beside.len(), p99(&beside));
    assert!(p99(&beside) < Duration::from_secs(1), "{:?}", p99(&beside));
    let peak = proxy.memory("VmHWM");
    println!("{peak} KiB at the most");
    assert!(peak < LIMIT, "{peak} KiB");
}

#[test]
fn a_soak_with_faults_leaks_nothing() {
    let stub =
        Stub::start(Script::new(Era::Stateless).on("tools/call", "pear_peel", Act::Drop).on(
            "tools/call",
            "plum_dry",
            Act::Stream(vec![": cut\n\n".into()]),
        ));
    let lab = Lab::facing(&stub.url);
    let proxy = lab.proxy(&["-q"]);
    let peer = Peer::stateless(&proxy.url);
    let round = || {
        for name in ["apple_pick", "apple_pick", "pear_peel", "plum_dry", "search_tools"] {
            peer.request("tools/call", &json!({"name": name, "arguments": {"query": "fruit"}}));
        }
    };
    let in_ci = std::env::var_os("CI").is_some();
    let lasts = Duration::from_secs(match (heavy(), in_ci) {
        (true, _) => 3600,
        (false, true) => 120,
        (false, false) => 20,
    });
    // The allocator and the caches settle first.
    let settle = Instant::now();
    while settle.elapsed() < lasts / 10 {
        round();
    }
    let (memory, descriptors) = (proxy.memory("VmRSS"), proxy.descriptors());
    let begun = Instant::now();
    while begun.elapsed() < lasts {
        round();
        // Some 50 calls a second.
        std::thread::sleep(Duration::from_millis(80));
    }
    let (after, open) = (proxy.memory("VmRSS"), proxy.descriptors());
    println!("{memory} KiB and {descriptors} descriptors before, {after} KiB and {open} after");
    assert!(after <= memory + memory / 20 + 512, "{memory} KiB before, {after} KiB after");
    assert!(open <= descriptors + 3, "{descriptors} descriptors before, {open} after");
}
