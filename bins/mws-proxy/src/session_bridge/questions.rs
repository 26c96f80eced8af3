//! Questions of the upstream to the client: the stateless protocol answers with them, the session
//! protocol sends them as requests on the stream of the request under way.
//!
//! Invariant: a client is asked only what it said it can answer; question and answer pass as they
//! are; what is not answered is taken back.
//! Deliberately absent: any answer of the proxy's own.

use std::time::Duration;

use mws_catalog::json;
use tokio::sync::mpsc::Sender;

use crate::can::{Can, mode};
use crate::edit::{Object, quote, with};
use crate::rpc::Message;
use crate::session_bridge::talk::Talk;

/// How often an upstream may ask within one request.
pub(crate) const ROUNDS: u32 = 8;
/// How long the client has for the questions of one round: people answer some of them.
const PATIENCE: Duration = Duration::from_secs(600);
/// The pause before an upstream is asked again that only wants its state back.
const PACE: Duration = Duration::from_millis(250);

/// Why the upstream does not get its answers, in words for the client's user.
pub(crate) struct Unmet(pub(crate) String);

/// What an upstream wants before it answers.
pub(crate) struct Questions {
    /// Key, method and parameters as JSON text.
    list: Vec<(String, String, Option<String>)>,
    state: Option<String>,
}

impl Questions {
    /// The questions in an answer; `None` for an answer that is one.
    ///
    /// # Errors
    /// Questions that cannot be read.
    pub(crate) fn of(answer: &str) -> Result<Option<Self>, Unmet> {
        let message = Message::parse(answer.as_bytes()).ok();
        let result = Object::of(message.as_ref().and_then(|message| message.result));
        let kind = result.get("resultType").and_then(json::string);
        if kind.as_deref() != Some("input_required") {
            return Ok(None);
        }
        let unfit = || Unmet("the server asks for input in a form that is not known".to_owned());
        let mut list = Vec::new();
        if let Some(requests) = result.get("inputRequests").filter(|text| *text != "null") {
            for member in json::members(requests).ok_or_else(unfit)? {
                let request = json::members(member.value).ok_or_else(unfit)?;
                let method = json::get(&request, "method").and_then(json::string);
                let params = json::get(&request, "params").map(str::to_owned);
                list.push((
                    member.raw_key.to_owned(),
                    method.ok_or_else(unfit)?.into_owned(),
                    params,
                ));
            }
        }
        let state = result.get("requestState").map(str::to_owned);
        if list.is_empty() && state.is_none() {
            return Err(unfit());
        }
        Ok(Some(Self { list, state }))
    }

    /// What the upstream wants back, as it sent it.
    pub(crate) fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Asks the client all of it; `inputResponses` as JSON text, `None` when nothing was asked.
    ///
    /// # Errors
    /// When the client cannot be asked, does not answer in time or answers with an error.
    pub(crate) async fn put(
        &self,
        talk: &Talk,
        to_client: &Sender<String>,
    ) -> Result<Option<String>, Unmet> {
        if self.list.is_empty() {
            tokio::time::sleep(PACE).await;
            return Ok(None);
        }
        let can = Can::of(Some(&talk.client.capabilities));
        for (_, method, params) in &self.list {
            let unmet = |why| Unmet(format!("the server asks for {why}"));
            can.answers(method, params.as_deref()).map_err(unmet)?;
        }
        let mut open = Open { talk, to_client, ids: Vec::new() };
        let mut waiting = Vec::new();
        for (key, method, params) in &self.list {
            let (id, answer) = talk.expect();
            open.ids.push(id);
            waiting.push((key, method, answer));
            let gone = |_| Unmet("the client closed the stream on which it is asked".to_owned());
            to_client.send(question(id, method, params.as_deref())).await.map_err(gone)?;
        }
        let all = async {
            let mut responses = Vec::new();
            for (key, method, answer) in waiting {
                let given = answer.await.map_err(|_| refused(method, "no answer"))?;
                responses.push(format!("{key}:{}", given_result(method, &given)?));
            }
            Ok(format!("{{{}}}", responses.join(",")))
        };
        let late =
            |_| Unmet(format!("the client did not give its input in {} s", PATIENCE.as_secs()));
        tokio::select! {
            responses = tokio::time::timeout(PATIENCE, all) => responses.map_err(late)?.map(Some),
            () = to_client.closed() => {
                Err(Unmet("the client closed the stream on which it is asked".to_owned()))
            }
        }
    }
}

/// Questions to the client that have no answer yet; what is left of them is taken back.
struct Open<'a> {
    talk: &'a Talk,
    to_client: &'a Sender<String>,
    ids: Vec<u64>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        for id in self.ids.iter().filter(|id| self.talk.withdraw(**id)) {
            let _ = self.to_client.try_send(format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\
                 \"params\":{{\"requestId\":{id}}}}}"
            ));
        }
    }
}

/// The request to the client.
fn question(id: u64, method: &str, params: Option<&str>) -> String {
    let mut params = params.filter(|params| *params != "null").map(str::to_owned);
    let is_url = method == "elicitation/create" && mode(params.as_deref()) == "url";
    if let Some(text) = params.as_mut().filter(|_| is_url) {
        let members = json::members(text).unwrap_or_default();
        // The session protocol names each of these; the stateless one does not.
        if json::get(&members, "elicitationId").is_none() {
            let random = quote(&format!("{:016x}", mws_state::random_u64()));
            *text = with(text, &[("elicitationId", random)]);
        }
    }
    let params = params.map_or_else(String::new, |params| format!(",\"params\":{params}"));
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{}{params}}}", quote(method))
}

/// The result in the client's answer.
fn given_result<'a>(method: &str, answer: &'a str) -> Result<&'a str, Unmet> {
    let message = Message::parse(answer.as_bytes()).map_err(|why| refused(method, &why))?;
    message.result.ok_or_else(|| {
        let error = Object::of(message.error);
        let why = error.get("message").and_then(json::string);
        refused(method, why.as_deref().unwrap_or("an error"))
    })
}

fn refused(method: &str, why: &str) -> Unmet {
    Unmet(format!("the client did not answer {method}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc;

    const FORM: &str = r#"{"method":"elicitation/create","params":{"message":"m"}}"#;
    const URL: &str = r#"{"method":"elicitation/create","params":{"mode":"url"}}"#;

    /// What comes of asking a client with these capabilities, which closes its stream when it is
    /// asked, and whether it was.
    async fn put(capabilities: &str, question: &str) -> (String, bool) {
        let initialize = format!(r#"{{"params":{{"capabilities":{capabilities}}}}}"#);
        let result =
            format!(r#"{{"resultType":"input_required","inputRequests":{{"k":{question}}}}}"#);
        let answer = crate::rpc::result("1", &result);
        let Ok(Some(questions)) = Questions::of(&answer) else { panic!("no questions") };
        let (to_client, mut client) = mpsc::channel(4);
        let asked = tokio::spawn(async move { client.recv().await.is_some() });
        let outcome = questions.put(&Talk::of(&initialize), &to_client).await;
        drop(to_client);
        let Err(Unmet(why)) = outcome else { panic!("it was answered") };
        (why, asked.await.expect("it ends"))
    }

    #[tokio::test]
    async fn a_client_is_sent_no_form_when_it_opens_urls_alone_and_no_url_when_it_has_forms() {
        let (by_form, by_url) = (r#"{"elicitation":{}}"#, r#"{"elicitation":{"url":{}}}"#);
        for (capabilities, question, lacks) in [
            (by_url, FORM, Some("elicitation by form")),
            (by_form, URL, Some("elicitation by URL")),
            ("{}", r#"{"method":"roots/list"}"#, Some("roots")),
            (by_form, FORM, None),
            (by_url, URL, None),
        ] {
            let (why, asked) = put(capabilities, question).await;
            assert_eq!(asked, lacks.is_none(), "{capabilities} {question}: {why}");
            let lacks = lacks.map(|what| format!("asks for {what}, which this client"));
            assert!(lacks.is_none_or(|lacks| why.contains(&lacks)), "{why}");
        }
    }
}
