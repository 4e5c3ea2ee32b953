//! Questions of a workflow to the client of a session.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use vmcp_compose::{Answer, AnswerError, Elicit, ElicitError, Question};

use crate::session::{PendingServerRequest, Session};
use crate::stream::{MessageClass, Stream};

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

    fn send(&self, params: &Value) -> Result<oneshot::Receiver<bytes::Bytes>, ElicitError> {
        let (sender, receiver) = oneshot::channel();
        let number = self.session.streams().register(PendingServerRequest::Call(sender));
        let number = number.ok_or_else(|| {
            ElicitError::Failed("it has too many open server requests".to_owned())
        })?;
        let message = json!({
            "jsonrpc": "2.0",
            "id": number,
            "method": "elicitation/create",
            "params": params,
        });
        if self.stream.push(message.to_string().into(), MessageClass::Required) {
            Ok(receiver)
        } else {
            Err(ElicitError::Failed("its queue of messages is full".to_owned()))
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
            let params = elicitation_params(question, rejected);
            let response = self.send(&params)?.await.map_err(|_| ElicitError::Disconnected)?;
            let response: Value = serde_json::from_slice(&response)
                .map_err(|_| ElicitError::Failed("its response is not JSON".to_owned()))?;
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
