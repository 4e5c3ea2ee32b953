//! Classification of call results.

use std::error::Error;

use http::StatusCode;
use vmcp_core::{CredentialError, cause_ref};

/// Outcome of a request for the circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The backend works.
    Success,
    /// The backend does not work.
    Failure,
    /// The result says nothing about the backend.
    Neutral,
}

/// Result of a call.
#[derive(Clone, Copy, Debug)]
pub enum CallResult<'a> {
    /// The status of a response.
    Status(StatusCode),
    /// An error instead of a response, or in its body.
    Error(&'a (dyn Error + 'static)),
}

/// Classifies call results. Implemented by closures `Fn(CallResult<'_>) -> Outcome`.
///
/// An implementation that knows the client's errors can be more precise than [`DefaultClassifier`]: a request that
/// was not sent because of a local limit says nothing about the backend.
pub trait Classifier {
    /// Classifies one result.
    fn classify(&self, result: CallResult<'_>) -> Outcome;
}

/// Default classifier. 502, 503, 504 and all errors but [`CredentialError`] are failures; 401, 403, 429 and credential
/// errors, which concern the caller, are neutral; all other statuses are successes.
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultClassifier;

impl<F: Fn(CallResult<'_>) -> Outcome> Classifier for F {
    fn classify(&self, result: CallResult<'_>) -> Outcome {
        self(result)
    }
}

impl Classifier for DefaultClassifier {
    fn classify(&self, result: CallResult<'_>) -> Outcome {
        match result {
            CallResult::Status(
                StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT,
            ) => Outcome::Failure,
            CallResult::Status(
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS,
            ) => Outcome::Neutral,
            CallResult::Status(_) => Outcome::Success,
            CallResult::Error(error) if cause_ref::<CredentialError>(error).is_some() => {
                Outcome::Neutral
            }
            CallResult::Error(_) => Outcome::Failure,
        }
    }
}
