//! server-everything asks clients of both eras, over each of its transports.
//!
//! Invariant: the client is the official one, which answers as it does on a direct connection.
//! Deliberately absent: what the same client and server do without questions; see `real`.

use mws_tests::lab::Lab;
use mws_tests::real::{Client, Step, Target, parts};
use serde_json::{Value, json};

#[test]
fn the_official_client_is_asked_by_server_everything() {
    let Some(parts) = parts() else { return };
    let lab = Lab::new();
    let (http, sse) = (parts.everything_http(&lab), parts.everything_sse(&lab));
    let stdio = parts.everything(&[]);
    let upstreams = [
        ("streamableHttp", json!({"url": http.url})),
        ("sse", json!({"url": sse.url})),
        ("stdio", json!({"command": stdio[0], "args": stdio[1..]})),
    ];
    let steps = [
        Step::Call("trigger-elicitation-request", json!({})),
        Step::Call("trigger-sampling-request", json!({"prompt": "p"})),
        Step::Call("get-roots-list", json!({})),
        Step::Call("echo", json!({"message": "after"})),
    ];
    let can = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}});
    for (transport, upstream) in upstreams {
        for mode in ["2026-07-28", "legacy"] {
            let home = Lab::with_config(&json!({"upstream": upstream}));
            let proxy = home.proxy(&[]);
            let at = Target::Url(proxy.url.clone());
            let got = parts.run_asked(&lab, Client::TypeScript, mode, &at, &steps, &can);
            for (outcome, word) in
                got.iter().zip(["- Name: suite", "sampled", "suite root", "after"])
            {
                let text = texts(outcome);
                assert!(text.contains(word), "{transport} {mode}: {word} is not in {outcome}");
            }
        }
    }
}

fn texts(outcome: &Value) -> String {
    let content = outcome["result"]["content"].as_array();
    let texts = content.into_iter().flatten().filter_map(|block| block["text"].as_str());
    texts.collect::<Vec<_>>().join("\n")
}
