//! Embedders that use a fake service in memory.

use http::Request;
use secrecy::SecretString;
use url::Url;
use vmcp_core::{Body, BoxError, Clock, collect_limited};
use vmcp_optimize::{Embedder, EmbeddingService};
use vmcp_test_support::EmbeddingServer;

/// Embedders of a fake service.
pub(crate) trait Embedders {
    /// Returns a client of the service at `url`.
    fn service(&self, url: &str) -> EmbeddingService;

    /// Returns an embedder with the API of text-embeddings-inference.
    fn embedder(&self) -> Embedder;

    /// Returns an embedder with OpenAI's API, and a key.
    fn openai(&self, url: &str, model: Option<&str>) -> Embedder;
}

impl Embedders for EmbeddingServer {
    fn service(&self, url: &str) -> EmbeddingService {
        let this = self.clone();
        let client = tower::service_fn(move |request: Request<Body>| {
            let this = this.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = collect_limited(body, 1 << 20).await?;
                let response = this.handle(Request::from_parts(head, body)).await;
                Ok::<_, BoxError>(response.map(Body::from))
            }
        });
        EmbeddingService::new(&Url::parse(url).unwrap(), client).unwrap()
    }

    fn embedder(&self) -> Embedder {
        Embedder::new(self.service("http://embed.example/"), Clock::system())
    }

    fn openai(&self, url: &str, model: Option<&str>) -> Embedder {
        let mut service = self.service(url).api_key(&SecretString::from("canary")).unwrap();
        if let Some(model) = model {
            service = service.model(model).unwrap();
        }
        Embedder::new(service, Clock::system())
    }
}
