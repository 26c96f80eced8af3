//! `search_tools` through the proxy: its arguments, what models are told of it, and the rank that is
//! recorded with the call that follows.
//!
//! Invariant: what is asserted holds for both eras. Deliberately absent: ranking quality (see `gold`).

use std::time::Duration;

use mws_tests::lab::{Lab, eventually};
use mws_tests::peer::Peer;
use mws_tests::script::{Era, Script};
use mws_tests::stub::Stub;
use serde_json::{Value, json};

const TOOLS: &str = r#"[{"name":"mail_send","description":"Send a message."},{"name":"mail_list","description":"List messages."},{"name":"disk_send","description":"Send a file."},{"name":"disk_list","description":"List files."}]"#;

#[test]
fn arguments_narrow_the_search() {
    each_era(&json!({}), |_, peer| {
        let names = |arguments: &Value| -> Vec<String> {
            let results = search(peer, arguments)["results"].clone();
            results.as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap().into()).collect()
        };
        let query = "send message";
        assert!(names(&json!({"query": query})).len() > 2);
        assert_eq!(names(&json!({"query": query, "limit": 1})), ["mail_send"]);
        assert_eq!(names(&json!({"query": "send", "backend": "disk"})), ["disk_send"]);
        assert_eq!(names(&json!({"backend": "DISK"})), ["disk_send", "disk_list"]);
        let brief = search(peer, &json!({"query": query, "detail": "brief"}));
        assert!(brief["results"][0].get("signature").is_some(), "{brief}");
        let none = search(peer, &json!({"query": query, "backend": "tape"}));
        assert!(none["note"].as_str().unwrap().contains("No backend"), "{none}");
        for wrong in [json!({"limit": "many"}), json!({"detail": "all"}), json!({"backend": 1})] {
            assert_eq!(peer.call("search_tools", &wrong)["isError"], true, "{wrong}");
        }
    });
}

#[test]
fn models_are_told_of_the_search_and_the_backends() {
    let hints = json!({"backendHints": {"disk": "files and folders"}});
    each_era(&hints, |_, peer| {
        let tools = peer.tools();
        let told = |at: usize| tools[at]["description"].as_str().unwrap().to_owned();
        assert!(told(0).contains("disk (files and folders), mail."), "{}", told(0));
        assert!(told(0).len() + told(1).len() < 900);
        let text = instructions(peer);
        for word in ["search_tools", "call_tool", "disk (files and folders)", "Stub."] {
            assert!(text.contains(word), "no {word} in {text}");
        }
    });
    each_era(&json!({"search": {"instructions": false}}), |_, peer| {
        peer.tools();
        assert_eq!(instructions(peer), "Stub.");
    });
}

#[test]
fn a_call_is_recorded_with_the_rank_its_tool_had() {
    each_era(&json!({}), |lab, peer| {
        peer.call("mail_list", &json!({}));
        peer.call("search_tools", &json!({"query": "send message"}));
        let found = search(peer, &json!({"query": "list"}));
        assert_eq!(found["results"].as_array().unwrap().len(), 2, "{found}");
        let first = found["results"][0]["name"].as_str().unwrap();
        let second = found["results"][1]["name"].as_str().unwrap();
        peer.call("call_tool", &json!({"name": first, "arguments": {}}));
        peer.call(second, &json!({}));
        peer.call("disk_send", &json!({}));
        let calls = || lab.events().into_iter().filter(|e| e.get("event").is_none()).collect();
        let all: Vec<Value> = {
            assert!(eventually(Duration::from_secs(3), || Vec::len(&calls()) == 4));
            calls()
        };
        let ranks: Vec<&Value> = all.iter().map(|call| &call["rank"]).collect();
        assert_eq!(ranks, [&Value::Null, &json!(1), &json!(2), &Value::Null], "{all:?}");
    });
}

fn each_era(config: &Value, test: impl Fn(&Lab, &Peer)) {
    for era in [Era::Stateless, Era::Session] {
        let stub = Stub::start(Script::new(era).tools(TOOLS));
        let mut config = config.clone();
        config["upstream"] = json!({"url": stub.url});
        let lab = Lab::with_config(&config);
        let proxy = lab.proxy(&[]);
        let peer = match era {
            Era::Session => Peer::session(&proxy.url),
            _ => Peer::stateless(&proxy.url),
        };
        peer.tool_names();
        test(&lab, &peer);
    }
}

fn instructions(peer: &Peer) -> String {
    let text = match peer.session {
        Some(_) => peer.post("initialize", None, &peer.initialize_body()).message(),
        None => peer.request("server/discover", &json!({})).message(),
    };
    let message: Value = serde_json::from_str(&text).unwrap();
    message["result"]["instructions"].as_str().unwrap().to_owned()
}

fn search(peer: &Peer, arguments: &Value) -> Value {
    let result = peer.call("search_tools", arguments);
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
    serde_json::from_str(text).unwrap()
}
