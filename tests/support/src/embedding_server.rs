//! Deterministic embedding service without a model.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::http_listener::HttpListener;
use crate::mcp_backend::full_response;

/// Fake embedding service with the API of text-embeddings-inference and that of OpenAI, in memory or on loopback. Clones
/// share their behavior and the requests. A vector is a bag of words, and some words are synonyms: `rain`, `umbrella` and
/// `weather`, `bug` and `ticket`.
#[derive(Clone, Debug, Default)]
pub struct EmbeddingServer(Arc<Mutex<EmbeddingBehavior>>);

/// Fake embedding service on loopback. Dropping it breaks its connections.
#[derive(Debug)]
pub struct EmbeddingListener {
    server: EmbeddingServer,
    /// `None` while the service is down.
    listener: Option<HttpListener>,
    address: SocketAddr,
}

/// Behavior of an [`EmbeddingServer`], and the requests that it received.
#[derive(Debug)]
pub struct EmbeddingBehavior {
    /// Model that the service reports. Different models number the words differently.
    pub model: &'static str,
    /// Number of dimensions.
    pub width: usize,
    /// Status of each response.
    pub status: StatusCode,
    /// Time until each response.
    pub delay: Duration,
    /// Body of each response, in place of the result.
    pub body: Option<String>,
    /// Maximum length of a text. Longer ones are rejected.
    pub max_text: usize,
    /// Word of texts that are rejected.
    pub rejected: Option<&'static str>,
    /// Models that `/v1/models` lists.
    pub models: Vec<&'static str>,
    /// Path and body of each request.
    pub received: Vec<(String, Value)>,
    /// `Authorization` of the last request.
    pub authorization: Option<String>,
}

/// Words that mean the same to this service.
const SYNONYMS: &[(&str, &str)] =
    &[("rain", "weather"), ("umbrella", "weather"), ("bug", "ticket")];

impl EmbeddingServer {
    /// Creates a service in memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves on loopback.
    #[must_use]
    pub fn start(self) -> EmbeddingListener {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut listener = EmbeddingListener { server: self, listener: None, address };
        listener.listen(0).expect("a port is free");
        listener
    }

    /// Changes the behavior.
    pub fn set(&self, change: impl FnOnce(&mut EmbeddingBehavior)) {
        change(&mut self.0.lock().expect("no change of the behavior panics"));
    }

    /// Returns the texts of all requests for embeddings, without the probe of a model.
    #[must_use]
    pub fn embedded(&self) -> Vec<String> {
        let state = self.0.lock().expect("no change of the behavior panics");
        let texts = state.received.iter().flat_map(|(_, body)| texts(body));
        texts.filter(|text| text != "tool").collect()
    }

    /// Returns the `Authorization` of the last request.
    #[must_use]
    pub fn authorization(&self) -> Option<String> {
        self.0.lock().expect("no change of the behavior panics").authorization.clone()
    }

    /// Handles a request.
    pub async fn handle(&self, request: Request<Bytes>) -> Response<String> {
        let (head, body) = request.into_parts();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = head.uri.path().to_owned();
        let delay = {
            let mut state = self.0.lock().expect("no change of the behavior panics");
            state.received.push((path.clone(), body.clone()));
            let authorization = head.headers.get("authorization");
            state.authorization = authorization.and_then(|it| it.to_str().ok()).map(str::to_owned);
            state.delay
        };
        sleep(delay).await;
        let state = self.0.lock().expect("no change of the behavior panics");
        let is_rejected = texts(&body).iter().any(|text| {
            text.len() > state.max_text || state.rejected.is_some_and(|word| text.contains(word))
        });
        let text = state.body.clone().unwrap_or_else(|| state.result(&path, &body).to_string());
        let mut response = Response::new(text);
        *response.status_mut() =
            if is_rejected { StatusCode::PAYLOAD_TOO_LARGE } else { state.status };
        response
    }
}

impl EmbeddingListener {
    fn listen(&mut self, port: u16) -> io::Result<()> {
        let server = self.server.clone();
        let listener = HttpListener::start(port, move |request: Request<_>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                match BodyExt::collect(body).await {
                    Ok(body) => {
                        let request = Request::from_parts(parts, body.to_bytes());
                        let (head, text) = server.handle(request).await.into_parts();
                        full_response(head.status, "application/json", text)
                    }
                    Err(_) => full_response(StatusCode::BAD_REQUEST, "text/plain", "no body"),
                }
            }
        })?;
        self.address = listener.address();
        self.listener = Some(listener);
        Ok(())
    }

    /// Returns the service.
    #[must_use]
    pub fn server(&self) -> &EmbeddingServer {
        &self.server
    }

    /// Returns the base URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Closes the listener and all connections.
    pub fn stop(&mut self) {
        self.listener = None;
    }

    /// Listens again at the port of before.
    ///
    /// # Panics
    /// Panics if the port is in use.
    pub fn restart(&mut self) {
        self.listen(self.address.port()).expect("the port is free again");
    }
}

impl Default for EmbeddingBehavior {
    fn default() -> Self {
        Self {
            model: "model-a",
            width: 64,
            status: StatusCode::OK,
            delay: Duration::ZERO,
            body: None,
            max_text: usize::MAX,
            rejected: None,
            models: vec!["model-a"],
            received: Vec::new(),
            authorization: None,
        }
    }
}

impl EmbeddingBehavior {
    fn result(&self, path: &str, body: &Value) -> Value {
        let vectors = texts(body).into_iter().map(|text| self.vector(&text));
        match path {
            "/info" => json!({"model_id": self.model, "max_client_batch_size": 4, "version": "1"}),
            "/embed" => vectors.collect(),
            "/v1/models" => {
                let models = self.models.iter().map(|id| json!({"id": id}));
                json!({"object": "list", "data": models.collect::<Vec<_>>()})
            }
            "/v1/embeddings" => {
                let rows = vectors.enumerate();
                let rows = rows.map(|(index, row)| json!({"index": index, "embedding": row}));
                // In any order.
                json!({"model": self.model, "data": rows.rev().collect::<Vec<_>>()})
            }
            _ => Value::Null,
        }
    }

    /// Returns a bag of words. Different models number the words differently.
    fn vector(&self, text: &str) -> Value {
        let mut vector = vec![0.0_f32; self.width];
        let text = text.to_lowercase();
        for word in text.split(|char: char| !char.is_alphanumeric()).filter(|it| !it.is_empty()) {
            let synonym = SYNONYMS.iter().find(|(one, _)| *one == word);
            let word = synonym.map_or(word, |(_, other)| *other);
            let mut hasher = DefaultHasher::new();
            (self.model, word).hash(&mut hasher);
            let place = hasher.finish() % self.width as u64;
            vector[usize::try_from(place).expect("less than the width")] += 1.0;
        }
        json!(vector)
    }
}

fn texts(body: &Value) -> Vec<String> {
    let texts = body.get("inputs").or(body.get("input")).and_then(Value::as_array);
    texts.into_iter().flatten().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}
