//! Questions of a workflow to the client of a session.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use vmcp_compose::{Answer, AnswerError, Elicit, ElicitError, Question};
use vmcp_core::Rejection;
use vmcp_wire::{Member, members};

use crate::expiry::wait_for_revocation;
use crate::session::{GatewayRequest, GatewayRequestError, Session};
use crate::stream::Stream;

/// Method of a question, as JSON.
const METHOD: &[u8] = b"\"elicitation/create\"";

/// Channel to the user of a session: `elicitation/create` on the stream of the call.
#[derive(Debug)]
pub(super) struct SessionElicit {
    session: Arc<Session>,
    stream: Arc<Stream>,
}

impl SessionElicit {
    pub(super) fn new(session: &Arc<Session>, stream: &Arc<Stream>) -> Self {
        Self { session: Arc::clone(session), stream: Arc::clone(stream) }
    }

    /// Sends a question once the session has a place for another server request.
    async fn send(&self, params: &[u8]) -> Result<GatewayRequest<'_>, ElicitError> {
        loop {
            // Created before the attempt, so that no removal in between is missed.
            let removed = self.session.streams().request_removed();
            match GatewayRequest::send(&self.session, &self.stream, METHOD, params) {
                Ok(request) => return Ok(request),
                Err(GatewayRequestError::TooMany) => removed.await,
                Err(GatewayRequestError::QueueFull) => {
                    let problem = "its queue of messages is full".to_owned();
                    return Err(ElicitError::Failed(problem));
                }
            }
        }
    }
}

impl Elicit for SessionElicit {
    fn elicit<'a>(
        &'a self,
        question: &'a Question,
        rejected: Option<&'a AnswerError>,
    ) -> BoxFuture<'a, Result<Answer, ElicitError>> {
        async move {
            let params = elicitation_params(question, rejected).to_string();
            let request = self.send(params.as_bytes()).await?;
            let caller = self.session.caller();
            let response = tokio::select! {
                response = request.response() => response,
                // An expired token does not end it: the client sends the answer with a new one.
                () = wait_for_revocation(caller.identity()) => return Err(ElicitError::Revoked),
            };
            let Some(response) = response else { return Ok(Answer::TimedOut) };
            let response: Value = serde_json::from_slice(&response).map_err(|error| {
                ElicitError::Failed(format!("its response is invalid: {error}"))
            })?;
            if let Some(result) = response.get("result") {
                return parse_answer(result).map_err(ElicitError::Failed);
            }
            let message = response["error"]["message"].as_str().unwrap_or("no message");
            Err(ElicitError::Failed(message.chars().take(200).collect()))
        }
        .boxed()
    }
}

/// Returns the `params` of `elicitation/create`.
pub(super) fn elicitation_params(question: &Question, rejected: Option<&AnswerError>) -> Value {
    let message = match rejected {
        None => Cow::Borrowed(&*question.message),
        Some(error) => Cow::Owned(format!("{}\n\n{error}", question.message)),
    };
    json!({ "message": message, "requestedSchema": question.schema.as_value() })
}

/// Reads `params.inputResponses`: the results of `elicitation/create`, by step.
pub(super) fn parse_responses(given: &[u8]) -> Result<Map<String, Value>, Rejection> {
    if given.first() != Some(&b'{') {
        return Err(Rejection::invalid_params("params.inputResponses must be an object"));
    }
    let response = |member: Member<'_>| {
        let step = member.key.read().into_owned();
        let value = serde_json::from_slice(member.value).map_err(|error| {
            Rejection::invalid_params(format!("params.inputResponses.{step}: {error}"))
        })?;
        Ok((step, value))
    };
    members(given).map(response).collect()
}

/// Parses the result of `elicitation/create`.
pub(super) fn parse_answer(result: &Value) -> Result<Answer, String> {
    match result.get("action").and_then(Value::as_str) {
        Some("accept") => {
            let content = result.get("content").cloned();
            Ok(Answer::Accept(content.unwrap_or_else(|| json!({}))))
        }
        Some("decline") => Ok(Answer::Decline),
        Some("cancel") => Ok(Answer::Cancel),
        _ => Err("action must be accept, decline or cancel".to_owned()),
    }
}
