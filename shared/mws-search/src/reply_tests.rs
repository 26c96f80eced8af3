//! Replies keep format and budget whatever the catalog holds.

use serde_json::Value;

use super::*;
use crate::Options;

fn reply(tools: &[String], query: &str) -> Value {
    let text = format!("{{\"tools\":[{}]}}", tools.join(","));
    let catalog = Catalog::parse(text.as_bytes()).unwrap().0;
    let index = Index::build(&catalog, &Options::default());
    let reply = search(&index, &catalog, query, &|name| name == "mail_send", 10);
    let text = reply.to_json();
    assert!(reply.kind == Kind::Exact || text.len() <= BUDGET, "{} bytes", text.len());
    let value: Value = serde_json::from_str(&text).unwrap();
    let names: Vec<&str> =
        value["results"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(names, reply.results);
    assert_eq!(value["more"].as_u64().unwrap_or_default() as usize, reply.more);
    value
}

fn tool(name: &str, description: &str, schema: &str) -> String {
    format!("{{\"name\":{name:?},\"description\":{description:?},\"inputSchema\":{schema}}}")
}

fn mailbox(description: &str, schema: &str) -> Vec<String> {
    let verbs =
        ["send", "read", "list", "move", "mark", "find", "label", "draft", "reply", "delete"];
    let mut tools: Vec<String> =
        verbs.iter().map(|verb| tool(&format!("mail_{verb}"), description, schema)).collect();
    tools.extend(["open", "close"].map(|verb| tool(&format!("drive_{verb}"), "A drive.", "{}")));
    tools
}

#[test]
fn an_exact_name_gives_that_tool_whole_and_uncapped() {
    let schema =
        format!(r#"{{ "z":1.0,"properties":{{"a":{{"description":"{}"}}}}}}"#, "x".repeat(9000));
    let tools = mailbox(&"long ".repeat(500), &schema);
    for query in ["mail_send", "MAIL_SEND", "send", " Send "] {
        let value = reply(&tools, query);
        assert_eq!(value["kind"], "exact", "{query}");
        assert_eq!(value["results"].as_array().unwrap().len(), 1);
        assert_eq!(value["results"][0]["inputSchema"]["z"].to_string(), "1.0");
        assert!(value["results"][0]["description"].as_str().unwrap().len() > 2400);
    }
}

#[test]
fn schemas_come_for_the_first_three_byte_for_byte() {
    let schema = r#"{ "b":1.0, "properties":{"to":{"type":"string"}}, "required":["to"] }"#;
    let value = reply(&mailbox("Handles a message.", schema), "handle a message");
    let results = value["results"].as_array().unwrap();
    assert_eq!((results.len(), value["kind"].as_str()), (10, Some("ranked")));
    let with_schema = results.iter().filter(|r| r.get("inputSchema").is_some()).count();
    assert_eq!(with_schema, 3);
    let name = results[5]["name"].as_str().unwrap();
    assert_eq!(results[5]["signature"], format!("{name}(to: string) — Handles a message."));
    let text = format!("{{\"tools\":[{}]}}", mailbox("Handles a message.", schema).join(","));
    let catalog = Catalog::parse(text.as_bytes()).unwrap().0;
    let index = Index::build(&catalog, &Options::default());
    let json = search(&index, &catalog, "handle a message", &|_| false, 10).to_json();
    assert_eq!(json.matches(&format!("\"inputSchema\":{schema}")).count(), 3);
}

#[test]
fn the_budget_takes_descriptions_then_schemas_then_tools() {
    let schema = format!(r#"{{"properties":{{"a":{{"description":"{}"}}}}}}"#, "x".repeat(1500));
    let trimmed = reply(&mailbox(&"Handles a message. ".repeat(200), &schema), "handle a message");
    assert_eq!(trimmed["results"].as_array().unwrap().len(), 10);
    assert!(trimmed["results"][0].get("inputSchema").is_some());
    assert!(trimmed["results"][0]["description"].as_str().unwrap().ends_with('…'));

    let schema = format!(r#"{{"properties":{{"a":{{"description":"{}"}}}}}}"#, "x".repeat(7000));
    let without = reply(&mailbox("Handles a message.", &schema), "handle a message");
    assert_eq!(without["results"].as_array().unwrap().len(), 10);
    let line = without["results"][0]["signature"].as_str().unwrap();
    assert!(line.ends_with("(a?: any) — Handles a message."), "{line}");
    assert!(without["note"].as_str().unwrap().contains("exact name"));

    let many: Vec<String> =
        (0..200).map(|i| tool(&format!("mail_{i}_{}", "é".repeat(90)), "Ü", "{}")).collect();
    let cut = reply(&many, "mail");
    assert_eq!(cut["kind"], "backend");
    let shown = cut["results"].as_array().unwrap().len();
    assert!(shown > 10 && cut["more"].as_u64() == Some(200 - shown as u64));
}

#[test]
fn a_backend_is_listed_in_upstream_order_and_searched_inside() {
    let tools = mailbox("Handles a message.", "{}");
    let value = reply(&tools, "mail");
    let names: Vec<&Value> =
        value["results"].as_array().unwrap().iter().map(|result| &result["name"]).collect();
    assert_eq!(
        (value["kind"].as_str(), names[0], names[9]),
        (Some("backend"), &json!("mail_send"), &json!("mail_delete"))
    );
    assert_eq!(reply(&tools, "drive open")["results"][0]["name"], "drive_open");
    assert_eq!(reply(&tools, "mail open")["results"][0]["name"], "mail_read");
    assert!(reply(&tools, "drive zzzz")["results"].as_array().unwrap().len() >= 2);
}

#[test]
fn no_query_gives_names_by_backend_with_marks() {
    let value = reply(&mailbox("Handles a message.", "{}"), "  ");
    assert_eq!(value["kind"], "overview");
    assert_eq!(value["backends"][0]["names"][0], "mail_send*");
    assert_eq!(value["backends"][0]["count"], 10);
    assert_eq!(value["backends"][1]["name"], "drive");
}

#[test]
fn a_large_overview_shrinks_to_counts_then_to_the_largest() {
    let servers = |servers: usize, each: usize| -> Vec<String> {
        (0..servers * each)
            .map(|i| tool(&format!("server{}__tool_number_{i}", i % servers), "", "{}"))
            .collect()
    };
    let counts = reply(&servers(60, 20), "");
    assert_eq!(counts["backends"].as_array().unwrap().len(), 60);
    assert_eq!(counts["backends"][7]["count"], 20);
    let largest = reply(&servers(600, 2), "");
    let shown = largest["backends"].as_array().unwrap().len();
    assert!(shown > 50 && largest["more"].as_u64() == Some(600 - shown as u64));
}

#[test]
fn odd_queries_and_empty_catalogs_are_answered() {
    for query in ["the of a", "…", "\u{0}", "a".repeat(5000).as_str(), "'; --", "票", "🦀"] {
        assert_eq!(reply(&mailbox("m", "{}"), query)["kind"], "ranked", "{query:?}");
        assert_eq!(reply(&[], query)["weak"], true);
    }
    assert_eq!(reply(&[], "")["backends"], json!([]));
}

#[test]
fn a_signature_stays_on_one_line() {
    let schema = r#"{"properties":{"a\nb":{"enum":[{"x":
        1}]}}}"#;
    let value = reply(&mailbox("Note\nthat it sends.", schema), "mail");
    let results = value["results"].as_array().unwrap();
    let signatures: Vec<_> = results.iter().filter_map(|r| r["signature"].as_str()).collect();
    assert!(
        !signatures.is_empty() && signatures.iter().all(|line| !line.contains(char::is_control))
    );
    assert!(signatures[0].contains("(a b?: {\"x\":"), "{}", signatures[0]);
}
