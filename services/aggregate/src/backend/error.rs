//! Errors between the gateway and a backend, and their conversion to rejections for clients.

use http::StatusCode;
use vmcp_breaker::CircuitOpen;
use vmcp_core::{
    BoxError, CredentialError, CredentialErrorKind, NotSentError, Rejection, cause_ref,
};
use vmcp_session::StorageError;
use vmcp_timeout::Elapsed;
use vmcp_wire::ScanErrorKind;
use vmcp_wire::sse::EventTooLargeError;

/// Time after which a client retries a request that needs the session storage.
const STORAGE_RETRY_SECONDS: u32 = 2;

/// Response of a backend that violates MCP, or a call that the gateway ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackendError {
    /// The backend does not know the session of the request.
    #[error("closed the session")]
    SessionGone,
    /// An HTTP error status; the backend has not processed the request.
    #[error("returned HTTP {0}")]
    Status(StatusCode),
    /// The response is neither JSON nor an event stream.
    #[error("returned an unsupported content type")]
    ContentType,
    /// The body is not the response to the request.
    #[error("returned {0}")]
    Malformed(&'static str),
    /// The stream ended before the response.
    #[error("closed its stream before the response")]
    Ended,
    /// The response is a JSON-RPC error.
    #[error("returned error {code}: {message}")]
    Rpc { code: i64, message: String },
    /// The backend rejected the handshake.
    #[error("rejected initialize: {reason}")]
    Handshake { reason: String },
    /// The response or one of its events exceeds the size limit.
    #[error("returned more than {limit} bytes")]
    TooLarge { limit: usize },
    /// The response to a step exceeds the size limit.
    #[error(
        "returned more than {} MiB, the limit of a step's output",
        vmcp_compose::limits::MAX_STEP_OUTPUT_BYTES >> 20
    )]
    StepOutput,
    /// The response has to be buffered, but the byte budget is exhausted.
    #[error("returned a response for which the gateway has no buffer space at the moment")]
    NoRoom,
    /// The backend's lists exceed a limit.
    #[error("returned {0}")]
    Offer(#[from] CatalogLimitError),
    /// The backend does not support the generation of the request and has not processed it.
    #[error("does not support the protocol generation of the request")]
    Generation,
    /// The backend supports none of the gateway's protocol revisions.
    #[error("supports no protocol revision of the gateway")]
    Revision,
    /// Too many requests are pending on the single stream, or one with the same id.
    #[error("has too many pending requests, or one with the same id")]
    Busy,
    /// The client has cancelled the request.
    #[error("did not complete the request: the client cancelled it")]
    Cancelled,
    /// The backend sent a server request for which the client lacks the capability, or too many of them.
    #[error("{0}")]
    ServerRequest(&'static str),
    /// The gateway ended the call because its client is away. `reason` is sent to the backend unless it has already responded.
    #[error("{problem}")]
    Detached { problem: &'static str, reason: Option<&'static str> },
    /// The backend sent a server request for which the client did not declare this capability.
    #[error("sent a server request that needs the client capability {0}")]
    Capability(&'static str),
    /// The backend created a task for a call whose client does not support tasks.
    #[error("{0}")]
    Task(&'static str),
}

/// Limit that a backend's lists exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CatalogLimitError {
    #[error("more than {limit} bytes of tools, prompts and resources")]
    Bytes { limit: usize },
    #[error("more than {limit} pages of lists")]
    Pages { limit: usize },
    #[error("more than {limit} items in one list")]
    Items { limit: usize },
    #[error("the same cursor twice")]
    RepeatedCursor,
}

/// Builds the rejection of a failed call to `backend` that is safe to repeat.
pub(crate) fn rejection(backend: &str, error: &BoxError) -> Rejection {
    rejection_of(backend, error, true)
}

/// Builds the rejection of a failed call to `backend`. `repeatable` marks calls that have no additional effect when repeated.
pub(crate) fn rejection_of(backend: &str, error: &BoxError, repeatable: bool) -> Rejection {
    if let Some(open) = cause_ref::<CircuitOpen>(error.as_ref()) {
        return Rejection::circuit_open(backend, open.retry_in);
    }
    if let Some(error) = cause_ref::<StorageError>(error.as_ref()) {
        return storage_rejection(*error);
    }
    match cause_ref::<CredentialError>(error.as_ref()) {
        Some(error) => credentials(backend, &error.kind),
        None => match cause_ref::<BackendError>(error.as_ref()) {
            Some(BackendError::Status(status)) if matches!(status.as_u16(), 401 | 403 | 407) => {
                Rejection::backend_unauthorized(backend, &problem(error))
            }
            Some(BackendError::Task(_)) => {
                Rejection::backend_outcome_unknown(backend, &problem(error))
            }
            Some(BackendError::Capability(capability)) => Rejection::missing_capability(
                &format!("{{\"{capability}\":{{}}}}"),
                format!("the call needs the client capability {capability}"),
            ),
            _ if !repeatable && may_have_acted(error) => {
                let source: &(dyn std::error::Error + 'static) = error.as_ref();
                let known = cause_ref::<BackendError>(source).is_some()
                    || cause_ref::<EventTooLargeError>(source).is_some()
                    || cause_ref::<Elapsed>(source).is_some();
                // The backend was reached; otherwise the error would show that the request was not sent.
                let problem =
                    if known { problem(error) } else { "closed the connection".to_owned() };
                Rejection::backend_outcome_unknown(backend, &problem)
            }
            _ => Rejection::backend_unavailable(backend, &problem(error)),
        },
    }
}

/// Builds the rejection of a request for which the session storage did not take a step.
pub(crate) fn storage_rejection(error: StorageError) -> Rejection {
    match error {
        StorageError::Ended => Rejection::session_not_found(),
        // Another replica may be able to read what this one cannot.
        StorageError::Unavailable | StorageError::UnknownFormat => {
            Rejection::overloaded(error.to_string(), STORAGE_RETRY_SECONDS)
        }
        StorageError::TooManySubscriptions | StorageError::RecordFull => {
            Rejection::invalid_params(error.to_string())
        }
    }
}

/// Returns `true` if the backend may have processed the request.
fn may_have_acted(error: &BoxError) -> bool {
    let error: &(dyn std::error::Error + 'static) = error.as_ref();
    if cause_ref::<NotSentError>(error).is_some() {
        return false;
    }
    match cause_ref::<BackendError>(error) {
        // A client error rejects the whole request. A 5xx of a server or proxy leaves the outcome open.
        Some(BackendError::Status(status)) => {
            status.is_server_error() && *status != StatusCode::SERVICE_UNAVAILABLE
        }
        Some(
            BackendError::SessionGone
            | BackendError::Rpc { .. }
            | BackendError::Handshake { .. }
            | BackendError::Generation
            | BackendError::Revision
            | BackendError::Offer(_)
            | BackendError::Busy,
        ) => false,
        None
        | Some(
            BackendError::ContentType
            | BackendError::Malformed(_)
            | BackendError::Ended
            | BackendError::TooLarge { .. }
            | BackendError::StepOutput
            | BackendError::NoRoom
            | BackendError::Cancelled
            | BackendError::ServerRequest(_)
            | BackendError::Detached { .. }
            | BackendError::Capability(_)
            | BackendError::Task(_),
        ) => true,
    }
}

/// Builds the rejection for unavailable credentials. It does not name the authority.
fn credentials(backend: &str, kind: &CredentialErrorKind) -> Rejection {
    match kind {
        CredentialErrorKind::NoCaller => {
            let problem = "they depend on the caller, and the caller is not authenticated";
            Rejection::credentials_unavailable(backend, problem, false)
        }
        CredentialErrorKind::NoUpstreamToken { provider: _ } => {
            Rejection::reauthentication_required(backend)
        }
        CredentialErrorKind::Rejected { reason } => {
            let problem = format!("the provider rejected the caller ({reason})");
            Rejection::credentials_unavailable(backend, &problem, false)
        }
        CredentialErrorKind::Request { reason } => {
            let problem = format!("the request cannot carry any ({reason})");
            Rejection::credentials_unavailable(backend, &problem, false)
        }
        CredentialErrorKind::Unavailable { reason: _ } => {
            let problem = "the credential provider does not respond: try again later";
            Rejection::credentials_unavailable(backend, problem, true)
        }
    }
}

/// Returns `true` if a failure may result from calling the backend in the wrong generation. None of these requests was
/// processed.
pub(crate) fn is_mode_mismatch(error: &BoxError) -> bool {
    matches!(
        cause_ref::<BackendError>(error.as_ref()),
        Some(BackendError::Generation | BackendError::Revision | BackendError::Handshake { .. })
    )
}

/// Returns `true` if the response or one of its events exceeds the size limit.
pub(crate) fn is_too_large(error: &BoxError) -> bool {
    let error: &(dyn std::error::Error + 'static) = error.as_ref();
    matches!(cause_ref(error), Some(BackendError::TooLarge { .. }))
        || cause_ref::<EventTooLargeError>(error).is_some()
}

/// Describes a backend's error without confidential details.
pub(crate) fn problem(error: &BoxError) -> String {
    let error: &(dyn std::error::Error + 'static) = error.as_ref();
    if cause_ref::<Elapsed>(error).is_some() {
        return "did not respond in time".to_owned();
    }
    if cause_ref::<CircuitOpen>(error).is_some() {
        return "is unavailable: circuit open".to_owned();
    }
    if let Some(error) = cause_ref::<CredentialError>(error) {
        return format!("has no credentials: {}", error.kind);
    }
    if let Some(EventTooLargeError { limit }) = cause_ref(error) {
        return BackendError::TooLarge { limit: *limit }.to_string();
    }
    cause_ref::<BackendError>(error)
        .map_or_else(|| "is unreachable".to_owned(), ToString::to_string)
}

impl BackendError {
    /// Creates the error of a body that cannot be scanned.
    pub(crate) fn unreadable(kind: ScanErrorKind) -> Self {
        Self::Malformed(match kind {
            ScanErrorKind::TooDeep => "JSON that is nested deeper than 128 levels",
            _ => "a body that is not valid JSON",
        })
    }

    /// The response exceeds the buffer of a detached call.
    pub(crate) const RESPONSE_OVER_BUFFER: Self = Self::Detached {
        problem: "returned more than the buffer of a disconnected client holds",
        reason: None,
    };

    /// The messages before the response exceed the buffer of a detached call.
    pub(crate) const MESSAGES_OVER_BUFFER: Self = Self::Detached {
        problem: "sent more than the buffer of a disconnected client holds; the gateway cancelled the call",
        reason: Some("the buffer of the disconnected client is full"),
    };

    /// The client was away for longer than the limit.
    pub(crate) const ABANDONED: Self = Self::Detached {
        problem: "did not complete the call: its client was disconnected for too long",
        reason: Some("the client was disconnected for too long"),
    };
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn told(error: impl std::error::Error + Send + Sync + 'static) -> String {
        rejection("be", &(Box::new(error) as BoxError)).message().to_owned()
    }

    fn retryable(error: impl std::error::Error + Send + Sync + 'static) -> bool {
        let json = rejection("be", &(Box::new(error) as BoxError)).to_json(None);
        String::from_utf8_lossy(&json).contains("\"retryable\":true")
    }

    fn without(kind: CredentialErrorKind) -> Rejection {
        let backend = vmcp_core::Backend::new("be");
        let source = Some("https://idp.internal/token: canary".into());
        rejection("be", &(Box::new(CredentialError { backend, kind, source }) as BoxError))
    }

    #[test]
    fn maps_missing_credentials_to_remedies() {
        let told = without(CredentialErrorKind::NoCaller);
        assert!(told.message().contains("the caller is not authenticated"), "{told:?}");
        assert_eq!((told.status(), told.challenge()), (StatusCode::OK, None));
        let told = without(CredentialErrorKind::Rejected { reason: "invalid_grant".into() });
        assert!(told.message().contains("rejected the caller (invalid_grant)"), "{told:?}");
        assert!(String::from_utf8_lossy(&told.to_json(None)).contains("\"retryable\":false"));
        let told = without(CredentialErrorKind::Request { reason: "it is too large" });
        assert!(told.message().contains("the request cannot carry any (it is too large)"));
        assert!(String::from_utf8_lossy(&told.to_json(None)).contains("\"retryable\":false"));
        let told = without(CredentialErrorKind::Unavailable { reason: "timeout" });
        assert!(String::from_utf8_lossy(&told.to_json(None)).contains("\"retryable\":true"));
    }

    #[test]
    fn calls_that_may_have_acted_are_not_retryable() {
        let rejected = |error: BoxError, repeatable| {
            let rejection = rejection_of("be", &error, repeatable);
            let json = String::from_utf8_lossy(&rejection.to_json(None)).into_owned();
            (rejection.message().to_owned(), json.contains("\"retryable\":true"))
        };
        let reset = || BoxError::from("connection reset by 10.0.0.7");
        let unknown = "it may have acted on the request, check before trying again";
        let message = format!("backend be closed the connection: {unknown}");
        assert_eq!(rejected(reset(), false), (message, false));
        let elapsed = Box::new(Elapsed { limit: Duration::from_secs(1) });
        let message = format!("backend be did not respond in time: {unknown}");
        assert_eq!(rejected(elapsed, false), (message, false));
        assert!(rejected(reset(), true).1);
        let unsent = NotSentError::new(reset());
        let message = "backend be is unreachable".to_owned();
        assert_eq!(rejected(unsent.into(), false), (message, true));
        for (status, retryable) in
            [(500, false), (502, false), (503, true), (504, false), (429, true)]
        {
            let failure = BackendError::Status(StatusCode::from_u16(status).unwrap());
            assert_eq!(rejected(failure.into(), false).1, retryable, "{status}");
        }
    }

    #[test]
    fn does_not_retry_rejected_credentials() {
        for status in [401, 403, 407] {
            let refused = || BackendError::Status(StatusCode::from_u16(status).unwrap());
            assert!(told(refused()).ends_with("it rejected the credentials of the request"));
            assert!(!retryable(refused()));
        }
    }

    #[test]
    fn challenges_caller_without_upstream_token() {
        let told = without(CredentialErrorKind::NoUpstreamToken { provider: "github".into() });
        assert_eq!(told.status(), StatusCode::UNAUTHORIZED);
        assert_eq!(told.challenge(), Some(&vmcp_core::Challenge::InvalidToken));
    }

    #[test]
    fn open_circuit_states_retry_delay() {
        let backend = vmcp_core::Backend::new("be");
        let open = CircuitOpen { backend, retry_in: Duration::from_secs(7) };
        assert!(told(open).ends_with("circuit open, retry in 7 s"));
    }

    #[test]
    fn names_backend_and_cause_without_addresses() {
        let elapsed = Elapsed { limit: Duration::from_secs(1) };
        assert_eq!(told(elapsed), "backend be did not respond in time");
        let refused = std::io::Error::other("connect 10.0.0.7:80: refused");
        assert_eq!(told(refused), "backend be is unreachable");
        assert_eq!(
            told(BackendError::Status(StatusCode::BAD_GATEWAY)),
            "backend be returned HTTP 502 Bad Gateway"
        );
        assert!(retryable(BackendError::Status(StatusCode::BAD_GATEWAY)));
        assert_eq!(told(BackendError::Ended), "backend be closed its stream before the response");
    }
}
