//! Deterministic embedding service without a model.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::time::sleep;
use url::Url;
use vmcp_core::{Body, BoxError, Clock, collect_limited};
use vmcp_optimize::{Embedder, EmbeddingService};

/// Service in memory, and what it received.
#[derive(Clone)]
pub(crate) struct FakeService(Arc<Mutex<State>>);

/// Behavior of the service, and its requests.
pub(crate) struct State {
    pub(crate) model: &'static str,
    pub(crate) width: usize,
    pub(crate) status: StatusCode,
    pub(crate) delay: Duration,
    /// Replaces the body of each response.
    pub(crate) body: Option<String>,
    /// Maximum length of a text. Longer ones are rejected.
    pub(crate) max_text: usize,
    /// Word of texts that are rejected.
    pub(crate) rejected: Option<&'static str>,
    pub(crate) models: Vec<&'static str>,
    /// Path and body of each request.
    pub(crate) received: Vec<(String, Value)>,
    pub(crate) authorization: Option<String>,
}

/// Words that mean the same to this service.
const SYNONYMS: &[(&str, &str)] =
    &[("rain", "weather"), ("umbrella", "weather"), ("bug", "ticket")];

impl FakeService {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
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
        })))
    }

    /// Changes the behavior.
    pub(crate) fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.lock().unwrap());
    }

    /// Returns the texts of all requests for embeddings, without the probe of a model.
    pub(crate) fn embedded(&self) -> Vec<String> {
        let state = self.0.lock().unwrap();
        let texts = state.received.iter().flat_map(|(_, body)| texts(body));
        texts.filter(|text| text != "tool").collect()
    }

    pub(crate) fn authorization(&self) -> Option<String> {
        self.0.lock().unwrap().authorization.clone()
    }

    pub(crate) fn service(&self, url: &str) -> EmbeddingService {
        let this = self.clone();
        let client = tower::service_fn(move |request| this.clone().respond(request));
        EmbeddingService::new(&Url::parse(url).unwrap(), client).unwrap()
    }

    pub(crate) fn embedder(&self) -> Embedder {
        Embedder::new(self.service("http://embed.example/"), Clock::system())
    }

    pub(crate) fn openai(&self, url: &str) -> Embedder {
        let service = self.service(url).api_key(&SecretString::from("canary")).unwrap();
        Embedder::new(service, Clock::system())
    }

    async fn respond(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (head, body) = request.into_parts();
        let body = collect_limited(body, 1 << 20).await?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = head.uri.path().to_owned();
        let delay = {
            let mut state = self.0.lock().unwrap();
            state.received.push((path.clone(), body.clone()));
            let authorization = head.headers.get("authorization");
            state.authorization = authorization.map(|it| it.to_str().unwrap().to_owned());
            state.delay
        };
        sleep(delay).await;
        let state = self.0.lock().unwrap();
        let is_rejected = texts(&body).iter().any(|text| {
            text.len() > state.max_text || state.rejected.is_some_and(|word| text.contains(word))
        });
        let status = if is_rejected { StatusCode::PAYLOAD_TOO_LARGE } else { state.status };
        let text = state.body.clone().unwrap_or_else(|| state.result(&path, &body).to_string());
        Ok(Response::builder().status(status).body(Body::from(text))?)
    }
}

impl State {
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
            vector[usize::try_from(hasher.finish() % self.width as u64).unwrap()] += 1.0;
        }
        json!(vector)
    }
}

fn texts(body: &Value) -> Vec<String> {
    let texts = body.get("inputs").or(body.get("input")).and_then(Value::as_array);
    texts.into_iter().flatten().map(|text| text.as_str().unwrap().to_owned()).collect()
}
