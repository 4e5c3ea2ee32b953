//! Shorthands for using a client.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use url::Url;
use vmcp_egress::{Client, ClientSettings, Egress, Error, Settings};
use vmcp_test_support::ScriptedServer;

pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Clients of a server.
pub(crate) trait ServerExt {
    fn client(&self) -> Client {
        self.client_of(&Egress::default())
    }

    fn client_with(&self, settings: Settings) -> Client {
        self.client_of(&Egress::new(settings))
    }

    fn client_of(&self, egress: &Egress) -> Client;

    fn parsed_url(&self) -> Url;
}

impl ServerExt for ScriptedServer {
    fn client_of(&self, egress: &Egress) -> Client {
        egress.client(&self.parsed_url(), ClientSettings::allowing_private_addresses()).unwrap()
    }

    fn parsed_url(&self) -> Url {
        Url::parse(self.url()).unwrap()
    }
}

pub(crate) fn post(body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post("/mcp").body(Full::new(body.into())).unwrap()
}

/// Sends a request and reads the complete response.
pub(crate) async fn exchange(client: &Client, body: &'static str) -> Result<Bytes, Error> {
    let response = client.send(post(body)).await?;
    let body = response.into_body().collect().await.map_err(|error| {
        *error.downcast::<Error>().expect("bodies fail with this crate's error")
    })?;
    Ok(body.to_bytes())
}

/// Runs other tasks until `condition` holds.
pub(crate) async fn eventually(condition: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if condition() {
            return;
        }
        tokio::task::yield_now().await;
    }
    assert!(condition(), "it should have come about");
}
