//! What an answer says of the backend's health.

use std::error::Error;

use http::StatusCode;
use vmcp_core::{CredentialError, cause};

/// What became of a request, as far as the circuit is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The backend works.
    Success,
    /// The backend does not work.
    Failure,
    /// Nothing is known of the backend by it.
    Neutral,
}

/// What came back.
#[derive(Clone, Copy, Debug)]
pub enum CallResult<'a> {
    /// The head of an answer.
    Status(StatusCode),
    /// No answer, or one that broke off.
    Error(&'a (dyn Error + 'static)),
}

/// Tells what came back apart. A closure `Fn(CallResult<'_>) -> Outcome` does.
///
/// Whoever knows the client's errors can tell more than [`DefaultClassifier`], such as that nothing was sent because
/// the gateway's own limit was reached.
pub trait Classifier {
    /// What it says of the backend.
    fn classify(&self, seen: CallResult<'_>) -> Outcome;
}

/// Failures are 502, 503 and 504, and all errors but those of credentials. 401, 403 and 429 are neutral:
/// they are about the caller. Everything else is an answer of a backend that works.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultClassifier;

impl<F: Fn(CallResult<'_>) -> Outcome> Classifier for F {
    fn classify(&self, seen: CallResult<'_>) -> Outcome {
        self(seen)
    }
}

impl Classifier for DefaultClassifier {
    fn classify(&self, seen: CallResult<'_>) -> Outcome {
        match seen {
            CallResult::Status(
                StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT,
            ) => Outcome::Failure,
            CallResult::Status(
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS,
            ) => Outcome::Neutral,
            CallResult::Status(_) => Outcome::Success,
            CallResult::Error(error) if cause::<CredentialError>(error).is_some() => {
                Outcome::Neutral
            }
            CallResult::Error(_) => Outcome::Failure,
        }
    }
}
