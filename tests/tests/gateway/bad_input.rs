//! Invalid requests: each gets the status and the JSON-RPC error of its revision and a message with a remedy, while other
//! clients are not affected.

mod headers;
mod http;
mod messages;
mod names;
mod state;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ::http::{HeaderMap, HeaderName, HeaderValue, Method};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use vmcp_test_support::McpBackend;
use vmcp_tests::backends::conforming_server;
use vmcp_tests::caller::{Caller, Line};
use vmcp_tests::counterparts::{Gateway, Reply};

use crate::common::gateway;

/// A gateway, and a client of each generation that uses it continuously.
struct Scene {
    gateway: Gateway,
    _good: McpBackend,
    over: Arc<AtomicBool>,
    neighbours: Vec<JoinHandle<u32>>,
}

impl Scene {
    /// Starts a gateway with one backend, `a`, with the usual tools.
    async fn start() -> Self {
        Self::before(conforming_server("a").start()).await
    }

    async fn before(good: McpBackend) -> Self {
        let gateway = gateway(&[&good]).await;
        let over = Arc::new(AtomicBool::new(false));
        let callers = crate::common::both(gateway.url()).await.unwrap();
        let neighbours = callers.map(|caller| tokio::spawn(live_on(caller, Arc::clone(&over))));
        Self { gateway, _good: good, over, neighbours: neighbours.into() }
    }

    fn url(&self) -> &str {
        self.gateway.url()
    }

    /// Asserts that the process runs and that the continuous clients saw no error.
    async fn finish(mut self) {
        self.over.store(true, Ordering::Relaxed);
        for neighbour in self.neighbours {
            assert!(neighbour.await.unwrap() > 0);
        }
        assert!(self.gateway.ended().unwrap().is_none(), "{}", self.gateway.log());
        let log = self.gateway.log();
        assert!(!log.contains("panicked"), "{log}");
    }
}

/// Calls a tool continuously and returns the number of calls.
async fn live_on(mut caller: Caller, over: Arc<AtomicBool>) -> u32 {
    let mut calls = 0;
    while !over.load(Ordering::Relaxed) || calls == 0 {
        let word = format!("word {calls}");
        let seen = caller.call("a_echo", json!({ "word": word })).await.unwrap();
        assert_eq!(seen["structuredContent"]["params"]["arguments"]["word"], word);
        calls += 1;
    }
    calls
}

/// A request and its expected response.
struct Case {
    what: String,
    method: Method,
    path: &'static str,
    headers: HeaderMap,
    body: Bytes,
    status: u16,
    code: Option<i64>,
    /// Expected part of the message.
    tells: &'static str,
    /// Expected id of the response.
    id: Option<Value>,
}

impl Case {
    /// Creates a request with a description for assertion messages.
    fn new(method: Method, what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            method,
            path: "/mcp",
            headers: HeaderMap::new(),
            body: Bytes::new(),
            status: 200,
            code: None,
            tells: "",
            id: None,
        }
    }

    /// Creates a `POST` of this body with the right media types.
    fn post(body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let what: String = String::from_utf8_lossy(&body).chars().take(160).collect();
        Self { body, ..Self::new(Method::POST, what) }
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
    }

    fn at(mut self, path: &'static str) -> Self {
        self.path = path;
        self
    }

    /// Sets a header, or removes it for an empty value.
    fn header(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        if value.is_empty() {
            self.headers.remove(name);
        } else {
            self.headers.insert(name, HeaderValue::from_str(value).unwrap());
        }
        self
    }

    /// Adds a second header of the same name.
    fn again(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.append(name, HeaderValue::from_static(value));
        self
    }

    fn headers(mut self, headers: HeaderMap) -> Self {
        self.headers.extend(headers);
        self
    }

    /// Expects this rejection.
    fn gets(mut self, status: u16, code: i64, tells: &'static str) -> Self {
        (self.status, self.code, self.tells) = (status, Some(code), tells);
        self
    }

    /// Expects this status without a JSON-RPC error.
    fn passes(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Expects this id in the rejection.
    fn with_id(mut self, id: impl Into<Value>) -> Self {
        self.id = Some(id.into());
        self
    }

    async fn check(self, line: &mut Line) -> Reply {
        let Self { what, method, path, headers, body, status, code, tells, id } = self;
        let reply = line.send(method, path, &headers, body).await.unwrap();
        assert_eq!(reply.status, status, "{what}: {reply:?}");
        let Some(code) = code else { return reply };
        let message = reply.message().unwrap();
        assert_eq!(message["error"]["code"], code, "{what}: {message}");
        let said = message["error"]["message"].as_str().unwrap();
        assert!(said.contains(tells), "{what}: {said:?} does not say {tells:?}");
        assert_eq!(message.get("id"), id.as_ref(), "{what}: {message}");
        reply
    }
}

/// Checks all cases over one connection, then that other clients were not affected.
async fn check_all(scene: Scene, cases: impl IntoIterator<Item = Case>) {
    let mut line = Line::to(scene.url());
    for case in cases {
        case.check(&mut line).await;
    }
    scene.finish().await;
}

/// Returns a client's message with its headers, for modification.
fn asked(caller: &mut Caller, method: &str, params: Value) -> Case {
    let message = caller.request(method, params);
    let id = message["id"].clone();
    let headers = caller.headers(&message);
    Case::post(message.to_string()).headers(headers).with_id(id)
}
