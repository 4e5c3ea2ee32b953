//! What can go wrong between the gateway and a backend, and what the client is told.

use http::StatusCode;
use vmcp_core::{BoxError, Rejection, cause};
use vmcp_timeout::Elapsed;

/// A backend did not answer as MCP requires.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The session that the request named is gone.
    #[error("has ended the session")]
    SessionGone,
    /// An HTTP status that says that nothing was done.
    #[error("answered HTTP {0}")]
    Status(StatusCode),
    /// Neither JSON nor an event stream.
    #[error("answered with an unknown content type")]
    ContentType,
    /// The body is not the answer to the request.
    #[error("answered with {0}")]
    Malformed(&'static str),
    /// The stream ended before the answer.
    #[error("ended its stream before the answer")]
    Ended,
    /// The answer is an error of JSON-RPC.
    #[error("answered with error {code}: {message}")]
    Rpc { code: i64, message: String },
    /// It refused the handshake.
    #[error("refused a session: {reason}")]
    Handshake { reason: String },
    /// The answer, or one of its events, is larger than what is held.
    #[error("answered with more than {limit} bytes")]
    TooLarge { limit: usize },
    /// It refuses the generation that it was spoken to in, and has done nothing.
    #[error("does not speak the generation of MCP that it was spoken to in")]
    Generation,
    /// None of the revisions that the gateway speaks.
    #[error("speaks no revision that the gateway speaks")]
    Revision,
    /// Too many requests wait on its one stream, or another one with the same id.
    #[error("is busy: too many requests wait for it, or one with the same id")]
    Busy,
    /// It asked the client something that the client did not declare to be able to answer, or asked
    /// too often.
    #[error("{0}")]
    Question(&'static str),
}

/// What a client is told when a call to `backend` failed.
pub(crate) fn rejection(backend: &str, error: &BoxError) -> Rejection {
    Rejection::backend_unavailable(backend, &problem(error))
}

/// What a backend did wrong, as far as a client may know.
pub(crate) fn problem(error: &BoxError) -> String {
    let error: &(dyn std::error::Error + 'static) = error.as_ref();
    if cause::<Elapsed>(error).is_some() {
        return "did not answer in time".to_owned();
    }
    cause::<Failure>(error).map_or_else(|| "could not be reached".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn told(error: impl std::error::Error + Send + Sync + 'static) -> String {
        rejection("be", &(Box::new(error) as BoxError)).message().to_owned()
    }

    #[test]
    fn a_client_learns_which_backend_failed_and_how_but_no_addresses() {
        let elapsed = Elapsed { limit: Duration::from_secs(1) };
        assert_eq!(told(elapsed), "backend be did not answer in time");
        let refused = std::io::Error::other("connect 10.0.0.7:80: refused");
        assert_eq!(told(refused), "backend be could not be reached");
        assert_eq!(
            told(Failure::Status(StatusCode::BAD_GATEWAY)),
            "backend be answered HTTP 502 Bad Gateway"
        );
        assert_eq!(told(Failure::Ended), "backend be ended its stream before the answer");
    }
}
