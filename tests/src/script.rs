//! What a stub upstream answers: rules first, then plain answers of the era it speaks.
//!
//! Invariant: the text of a rule goes out byte for byte, only `$ID` and `$TOKEN`
//! become the id and the progress token as they were received.
//! Deliberately absent: transport. The HTTP stub and `mws-stub-stdio` send what this file says.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::path::PathBuf;

/// Protocol eras that an upstream speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Era {
    /// 2025-11-25 and earlier: `initialize`, then a session.
    Session,
    /// 2026-07-28: `server/discover`, no session.
    Stateless,
    /// Both, chosen by the client.
    Both,
}

/// Everything that a stub is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Script {
    /// Era of the plain answers.
    pub era: Era,
    /// JSON text of the array in the answer to `tools/list`.
    pub tools: String,
    /// Tried in order; the first that matches answers.
    pub rules: Vec<Rule>,
    /// Where `mws-stub-stdio` writes the lines that it received.
    pub record: Option<PathBuf>,
}

/// One scripted answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rule {
    /// Method that it answers: of JSON-RPC, or of HTTP where that is not POST.
    pub method: String,
    /// Text that the request must contain; empty matches every request.
    pub contains: String,
    /// What happens.
    pub act: Act,
}

/// What a stub does with a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Act {
    /// Sends one message (HTTP: as `application/json`).
    Message(String),
    /// Sends pieces of an event stream, 15 ms apart (stdio: the pieces are lines).
    Stream(Vec<String>),
    /// The same, but the stream stays open behind the last piece.
    Open(Vec<String>),
    /// Sends this HTTP status with this body (stdio: the body alone).
    Status(u16, String),
    /// Never answers.
    Hang,
    /// Closes the connection (stdio: ends the process).
    Drop,
}

/// The part of a request that a stub reads.
#[derive(Debug, Deserialize)]
pub struct Envelope<'a> {
    /// Id as it was received, absent on notifications.
    #[serde(borrow)]
    pub id: Option<&'a RawValue>,
    /// Method; empty on responses.
    #[serde(default)]
    pub method: String,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct Params<'a> {
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Debug, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "progressToken")]
    token: Option<&'a RawValue>,
}

impl<'a> Envelope<'a> {
    // Params of any other form are nobody's business here.
    fn token(&self) -> Option<&'a RawValue> {
        serde_json::from_str::<Params<'_>>(self.params?.get()).ok()?.meta?.token
    }
}

impl Script {
    /// A script with the plain answers of `era` and three tools named after fruit.
    #[must_use]
    pub fn new(era: Era) -> Self {
        Self { era, tools: FRUIT.to_owned(), rules: Vec::new(), record: None }
    }

    /// Replaces the tool list by this JSON array.
    #[must_use]
    pub fn tools(mut self, json: &str) -> Self {
        json.clone_into(&mut self.tools);
        self
    }

    /// Adds a rule for requests of `method` whose text has `contains` in it.
    #[must_use]
    pub fn on(mut self, method: &str, contains: &str, act: Act) -> Self {
        self.rules.push(Rule { method: method.to_owned(), contains: contains.to_owned(), act });
        self
    }

    /// The answer to one request, with its id filled in; `None` for notifications and responses.
    #[must_use]
    pub fn answer(&self, body: &str) -> Option<Act> {
        let envelope: Envelope<'_> = serde_json::from_str(body).ok()?;
        let id = envelope.id.map(RawValue::get);
        if let Some(rule) = self.rules.iter().find(|rule| rule.matches(&envelope.method, body)) {
            let act = rule.act.with_id(id.unwrap_or("null"));
            let token = envelope.token().map_or("null", RawValue::get);
            return Some(act.filled("$TOKEN", token));
        }
        let id = id.filter(|_| !envelope.method.is_empty())?;
        Some(self.plain(&envelope.method, body).with_id(id))
    }

    fn plain(&self, method: &str, body: &str) -> Act {
        let stateless = body.contains("io.modelcontextprotocol/protocolVersion");
        let seal = if stateless { r#""resultType":"complete","# } else { "" };
        let lasts = if stateless { r#","ttlMs":0,"cacheScope":"private""# } else { "" };
        match (method, self.era) {
            ("initialize", Era::Session | Era::Both) => result(INITIALIZED),
            ("server/discover", Era::Stateless | Era::Both) => result(DISCOVERED),
            ("tools/list", _) => result(&format!(r#"{{{seal}"tools":{}{lasts}}}"#, self.tools)),
            ("tools/call", _) => result(&format!(
                r#"{{{seal}"content":[{{"type":"text","text":"plain answer"}}],"isError":false}}"#
            )),
            ("ping", _) => result("{}"),
            _ => Act::Status(404, error(-32601, "Method not found")),
        }
    }
}

impl Rule {
    fn matches(&self, method: &str, body: &str) -> bool {
        self.method == method && body.contains(&self.contains)
    }
}

impl Act {
    fn with_id(&self, id: &str) -> Self {
        self.filled("$ID", id)
    }

    fn filled(&self, mark: &str, with: &str) -> Self {
        let fill = |text: &String| text.replace(mark, with);
        match self {
            Self::Message(text) => Self::Message(fill(text)),
            Self::Stream(pieces) => Self::Stream(pieces.iter().map(fill).collect()),
            Self::Open(pieces) => Self::Open(pieces.iter().map(fill).collect()),
            Self::Status(code, text) => Self::Status(*code, fill(text)),
            Self::Hang => Self::Hang,
            Self::Drop => Self::Drop,
        }
    }
}

/// A response message that carries this result text.
#[must_use]
pub fn result(json: &str) -> Act {
    Act::Message(format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{json}}}"#))
}

fn error(code: i32, message: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":$ID,"error":{{"code":{code},"message":"{message}"}}}}"#)
}

const FRUIT: &str = r#"[{"name":"apple_pick","description":"Picks apples from a tree.","inputSchema":{"type":"object","properties":{"count":{"type":"integer"}}}},{"name":"pear_peel","description":"Peels one pear.","inputSchema":{"type":"object","properties":{"knife":{"type":"string"}},"required":["knife"]}},{"name":"plum_dry","description":"Dries plums in the sun.","inputSchema":{"type":"object"}}]"#;
const INITIALIZED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"resources":{},"prompts":{},"completions":{},"vendorThing":{"depth":1.0}},"serverInfo":{"name":"stub","version":"0.1"},"instructions":"Stub."}"#;
const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{},"prompts":{},"completions":{},"vendorThing":{"depth":1.0}},"instructions":"Stub.","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"stub","version":"0.1"}}}"#;
