//! Requests to an embedding service.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use url::Url;
use vmcp_core::{Body, BodyError, HttpClient, collect_limited};

use super::response::{self, EmbeddingsResponse, InfoResponse, ModelsResponse};
use super::{EmbeddingError, EmbeddingModelError, EmbeddingUrlError};
use crate::vector::Vector;

/// Default timeout of a request, including the response.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum number of texts of a request.
const MAX_BATCH: usize = 32;

/// Maximum size of a response in bytes: 32 vectors of 8,192 dimensions fit.
const MAX_RESPONSE_SIZE: usize = 8 * 1024 * 1024;

/// Client of an embedding service: a text-embeddings-inference server, or one with OpenAI's API if the path of its URL ends in
/// `/v1`.
#[derive(Clone)]
pub struct EmbeddingService {
    client: HttpClient,
    api: Api,
    base: String,
    host: String,
    authorization: Option<HeaderValue>,
    timeout: Duration,
}

/// API of a service.
#[derive(Clone)]
enum Api {
    TextEmbeddingsInference,
    OpenAi { model: Option<String> },
}

/// Model that a service serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ModelInfo {
    pub(super) id: String,
    /// Maximum number of texts of a request.
    pub(super) max_batch: usize,
}

/// Embeddings of some texts.
pub(super) struct Batch {
    pub(super) vectors: Vec<Vector>,
    /// Model by the service's word.
    pub(super) model: Option<String>,
}

impl EmbeddingService {
    /// Creates a client of the service at `url` that sends requests by `client`.
    ///
    /// # Errors
    /// The URL is not one of a service.
    pub fn new(url: &Url, client: impl Into<HttpClient>) -> Result<Self, EmbeddingUrlError> {
        let is_http = matches!(url.scheme(), "http" | "https");
        let has_user = !url.username().is_empty() || url.password().is_some();
        if !is_http || has_user || url.query().is_some() || url.fragment().is_some() {
            return Err(EmbeddingUrlError);
        }
        let base = url.as_str().trim_end_matches('/').to_owned();
        let api = if base.ends_with("/v1") {
            Api::OpenAi { model: None }
        } else {
            Api::TextEmbeddingsInference
        };
        base.parse::<Uri>().map_err(|_| EmbeddingUrlError)?;
        let host = url.host_str().unwrap_or_default().to_owned();
        let client = client.into();
        Ok(Self { client, api, base, host, authorization: None, timeout: DEFAULT_TIMEOUT })
    }

    /// Sets the model of a server with OpenAI's API. Without one, the server must list exactly one.
    ///
    /// # Errors
    /// The service is a text-embeddings-inference server, which serves one model.
    pub fn model(mut self, name: impl Into<String>) -> Result<Self, EmbeddingModelError> {
        match &mut self.api {
            Api::OpenAi { model } => *model = Some(name.into()),
            Api::TextEmbeddingsInference => return Err(EmbeddingModelError),
        }
        Ok(self)
    }

    /// Sends `key` as a bearer token. A key that is not a valid header value is an error.
    ///
    /// # Errors
    /// The key contains control characters.
    pub fn api_key(mut self, key: &SecretString) -> Result<Self, http::header::InvalidHeaderValue> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", key.expose_secret()))?;
        value.set_sensitive(true);
        self.authorization = Some(value);
        Ok(self)
    }

    /// Sets the timeout of a request, including the response. 30 s by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Requests the model that the service serves.
    pub(super) async fn fetch_model(&self) -> Result<ModelInfo, EmbeddingError> {
        let id = match &self.api {
            Api::TextEmbeddingsInference => {
                let body = self.send(Method::GET, "/info", None).await?;
                let info: InfoResponse = response::parse(&body)?;
                let max_batch = info.max_client_batch_size.unwrap_or(MAX_BATCH);
                let version = info.model_sha.map(|sha| format!("@{sha}")).unwrap_or_default();
                let id = info.model_id + &version;
                return Ok(ModelInfo { id, max_batch: max_batch.clamp(1, MAX_BATCH) });
            }
            Api::OpenAi { model: Some(model) } => model.clone(),
            Api::OpenAi { model: None } => {
                let body = self.send(Method::GET, "/models", None).await?;
                let mut models = response::parse::<ModelsResponse>(&body)?.data;
                match (models.pop(), models.len()) {
                    (Some(model), 0) => model.id,
                    (None, _) => return Err(EmbeddingError::AmbiguousModel(0)),
                    (Some(_), others) => return Err(EmbeddingError::AmbiguousModel(others + 1)),
                }
            }
        };
        Ok(ModelInfo { id, max_batch: MAX_BATCH })
    }

    /// Requests the embeddings of `texts`, at most as many as the model takes. Texts that are longer than the model reads are
    /// cut by the service.
    pub(super) async fn embed(
        &self,
        model: &ModelInfo,
        texts: &[&str],
    ) -> Result<Batch, EmbeddingError> {
        let (rows, model) = match &self.api {
            Api::TextEmbeddingsInference => {
                let body = json!({"inputs": texts, "truncate": true});
                let body = self.send(Method::POST, "/embed", Some(&body)).await?;
                (response::parse(&body)?, None)
            }
            Api::OpenAi { .. } => {
                let body = json!({"model": model.id, "input": texts, "encoding_format": "float"});
                let body = self.send(Method::POST, "/embeddings", Some(&body)).await?;
                let mut response: EmbeddingsResponse = response::parse(&body)?;
                let model = response.model.take();
                (response.into_rows()?, model)
            }
        };
        Ok(Batch { vectors: response::vectors(rows, texts.len())?, model })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Bytes, EmbeddingError> {
        let sent = tokio::time::timeout(self.timeout, self.receive(method, path, body)).await;
        sent.unwrap_or(Err(EmbeddingError::Timeout(self.timeout)))
    }

    async fn receive(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Bytes, EmbeddingError> {
        let json = HeaderValue::from_static("application/json");
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        request = request.header(ACCEPT, json.clone());
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, json);
        }
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let request = request.body(body).expect("the base is a URI, and the path fits behind it");
        let response = self.client.send(request).await.map_err(EmbeddingError::Unreachable)?;
        if response.status() != StatusCode::OK {
            return Err(EmbeddingError::Status(response.status()));
        }
        let collected = collect_limited(response.into_body(), MAX_RESPONSE_SIZE).await;
        collected.map_err(|error| match error {
            BodyError::TooLarge { limit } => EmbeddingError::TooLarge(limit),
            BodyError::Broken(error) => EmbeddingError::Unreachable(error),
        })
    }
}

impl fmt::Debug for EmbeddingService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddingService").field("host", &self.host).finish_non_exhaustive()
    }
}
