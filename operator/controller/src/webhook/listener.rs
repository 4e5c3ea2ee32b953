//! Listener: connections over TLS, and bounds on size and time of a request.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use super::configuration::PATH;
use super::connections::{Connection, Connections};
use super::review::{Outcome, Review, ReviewError, allowed, response};
use super::validator::Validator;
use crate::metrics::Metrics;
use crate::settings::Settings;

/// Maximum size of a request. The API server limits the objects in it to less.
const MAX_REQUEST: usize = 3 * 1024 * 1024;

/// Connections at a time.
const MAX_CONNECTIONS: usize = 128;

/// Reviews that are answered at a time: each uses a thread for milliseconds.
const MAX_REVIEWS: usize = 4;

/// Time for the handshake of TLS.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for a request, below the 2 s that the API server waits.
const REQUEST_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Time for the head of a request, and for which a connection may be idle. The API server closes idle ones after 90 s.
const HEADER_TIMEOUT: Duration = Duration::from_mins(2);

/// Pause after a failure to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Server of the webhook.
pub(super) struct Listener {
    tls: watch::Receiver<Option<Arc<ServerConfig>>>,
    reviewer: Arc<Reviewer>,
}

/// Service that answers reviews.
struct Reviewer {
    validator: Arc<Validator>,
    metrics: Arc<Metrics>,
    permits: Arc<Semaphore>,
}

// === impl Listener ===

impl Listener {
    pub(super) fn new(
        tls: watch::Receiver<Option<Arc<ServerConfig>>>,
        settings: Settings,
        metrics: Arc<Metrics>,
    ) -> Self {
        let validator = Arc::new(Validator::new(settings));
        let permits = Arc::new(Semaphore::new(MAX_REVIEWS));
        Self { tls, reviewer: Arc::new(Reviewer { validator, metrics, permits }) }
    }

    /// Serves connections until the future is dropped.
    pub(super) async fn serve(mut self, mut connections: Connections) {
        // Without a certificate, clients wait for the first one.
        if self.tls.wait_for(Option::is_some).await.is_err() {
            return;
        }
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            // The semaphore is never closed.
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            let stream = match connections.next().await {
                Some(Ok(stream)) => stream,
                Some(Err(error)) => {
                    tracing::warn!(%error, "webhook connection not accepted");
                    sleep(ACCEPT_PAUSE).await;
                    continue;
                }
                None => return,
            };
            let Some(config) = self.tls.borrow().clone() else { continue };
            let reviewer = Arc::clone(&self.reviewer);
            tokio::spawn(async move {
                if let Err(error) = connection(stream, config, reviewer).await {
                    tracing::debug!(%error, "webhook connection failed");
                }
                drop(permit);
            });
        }
    }
}

async fn connection(
    stream: Box<dyn Connection>,
    config: Arc<ServerConfig>,
    reviewer: Arc<Reviewer>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let accept = TlsAcceptor::from(config).accept(stream);
    let stream = timeout(HANDSHAKE_TIMEOUT, accept).await??;
    let service = service_fn(move |request: Request<Incoming>| {
        let reviewer = Arc::clone(&reviewer);
        async move { Ok::<_, Infallible>(reviewer.respond(request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder.serve_connection(TokioIo::new(stream), service).await?;
    Ok(())
}

// === impl Reviewer ===

impl Reviewer {
    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let deadline = Instant::now() + REQUEST_TIMEOUT;
        if let Err((status, text)) = check_head(&request) {
            self.metrics.count_review("", "rejected");
            return plain(status, text.to_owned());
        }
        let body = Limited::new(request.into_body(), MAX_REQUEST).collect();
        let body = match timeout_at(deadline, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) => {
                self.metrics.count_review("", "rejected");
                if error.is::<LengthLimitError>() {
                    let text = format!("the request has more than {MAX_REQUEST} bytes");
                    return plain(StatusCode::PAYLOAD_TOO_LARGE, text);
                }
                return plain(StatusCode::BAD_REQUEST, "failed to read the request".to_owned());
            }
            Err(_) => {
                self.metrics.count_review("", "rejected");
                let text = "the request did not arrive in time".to_owned();
                return plain(StatusCode::REQUEST_TIMEOUT, text);
            }
        };
        match Review::parse(&body) {
            Ok(review) => self.review(review, deadline).await,
            Err(error) => {
                self.metrics.count_review("", "rejected");
                let ReviewError(text) = error;
                plain(StatusCode::BAD_REQUEST, text)
            }
        }
    }

    async fn review(&self, review: Review, deadline: Instant) -> Response<Full<Bytes>> {
        let (uid, kind) = (review.uid.clone(), review.kind.as_str());
        let (validator, permits) = (Arc::clone(&self.validator), Arc::clone(&self.permits));
        let outcome = async move {
            let permit = permits.acquire_owned().await;
            // Policies and templates are compiled, which takes a thread.
            let task = tokio::task::spawn_blocking(move || {
                let outcome = validator.validate(&review);
                drop(permit);
                outcome
            });
            task.await
        };
        let outcome = match timeout_at(deadline, outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => {
                tracing::error!(%error, "review failed");
                self.metrics.count_review(kind, "failed");
                let text = "the review failed; the log of the operator has the reason".to_owned();
                return plain(StatusCode::INTERNAL_SERVER_ERROR, text);
            }
            Err(_) => {
                self.metrics.count_review(kind, "timeout");
                let text = "vmcp-operator had no time to validate the object; the conditions of its status tell whether it can be used";
                return json(&allowed(&uid, &[text.to_owned()]));
            }
        };
        self.metrics.count_review(kind, outcome_label(&outcome));
        json(&response(&uid, outcome))
    }
}

fn outcome_label(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Allowed { .. } => "allowed",
        Outcome::Denied { .. } => "denied",
        Outcome::Skipped => "skipped",
    }
}

fn check_head(request: &Request<Incoming>) -> Result<(), (StatusCode, &'static str)> {
    if request.uri().path() != PATH {
        return Err((StatusCode::NOT_FOUND, "not found; the webhook is at /validate"));
    }
    if request.method() != Method::POST {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "an AdmissionReview is sent by POST"));
    }
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    if kind.is_none_or(|kind| !kind.eq_ignore_ascii_case("application/json")) {
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, "the content type is application/json"));
    }
    Ok(())
}

fn plain(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    with_type(status, "text/plain; charset=utf-8", text + "\n")
}

fn json(review: &serde_json::Value) -> Response<Full<Bytes>> {
    with_type(StatusCode::OK, "application/json", review.to_string())
}

fn with_type(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
