//! What an answer says of the backend's health.

use std::error::Error;

use http::StatusCode;
use vmcp_core::{CredentialError, cause};

/// What became of a request, as far as the circuit is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// The backend works.
    Success,
    /// The backend does not work.
    Failure,
    /// Nothing is known of the backend by it.
    Neutral,
}

/// What came back.
#[derive(Clone, Copy, Debug)]
pub enum Seen<'a> {
    /// The head of an answer.
    Status(StatusCode),
    /// No answer, or one that broke off.
    Error(&'a (dyn Error + 'static)),
}

/// Tells what came back apart. A closure `Fn(Seen<'_>) -> Class` does.
///
/// Whoever knows the client's errors can tell more than [`Standard`], such as that nothing was sent because
/// the gateway's own limit was reached.
pub trait Classify {
    /// What it says of the backend.
    fn classify(&self, seen: Seen<'_>) -> Class;
}

/// Failures are 502, 503 and 504, and all errors but those of credentials. 401, 403 and 429 are neutral:
/// they are about the caller. Everything else is an answer of a backend that works.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standard;

impl<F: Fn(Seen<'_>) -> Class> Classify for F {
    fn classify(&self, seen: Seen<'_>) -> Class {
        self(seen)
    }
}

impl Classify for Standard {
    fn classify(&self, seen: Seen<'_>) -> Class {
        match seen {
            Seen::Status(
                StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT,
            ) => Class::Failure,
            Seen::Status(
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS,
            ) => Class::Neutral,
            Seen::Status(_) => Class::Success,
            Seen::Error(error) if cause::<CredentialError>(error).is_some() => Class::Neutral,
            Seen::Error(_) => Class::Failure,
        }
    }
}
