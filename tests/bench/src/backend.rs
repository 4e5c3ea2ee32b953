//! `bench-backend`: a cheap MCP server behind the measured process, which counts the requests that reach it.
//!
//! It supports both generations over streamable HTTP and responds with plain JSON. `GET /stats` returns the counters as
//! [`Stats`]; `POST /change` renames one tool, notifies every open stream and returns the new name.
//!
//! It is not the fake of `vmcp-test-support`, because its own cost is part of each measurement: it parses only the
//! members that it uses, records no request, and sends prepared bytes.

mod catalog;
mod message;
mod stats;
mod streams;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use clap::{Parser, ValueEnum};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::channel::Channel;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use self::catalog::Catalog;
use self::message::{Incoming as Message, Params};
use self::stats::Counters;
pub use self::stats::Stats;
use self::streams::Streams;
use crate::{BoxError, Generation};

type BackendResponse = Response<Either<Full<Bytes>, Channel<Bytes>>>;

/// The largest blob, in bytes.
const LARGEST_BLOB: usize = 64 << 20;

/// An MCP server for measurements.
#[derive(Debug, Parser)]
#[command(name = "bench-backend")]
struct Args {
    /// The address to listen on; port 0 takes a free one. The first line on stdout is the address.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Name in serverInfo, and prefix of session ids.
    #[arg(long, default_value = "backend")]
    name: String,
    /// Number of tools: echo, blob and generated ones.
    #[arg(long, default_value_t = 10)]
    tools: usize,
    /// Supported generation; requests of the other one are rejected as by a server that does not know it.
    #[arg(long, value_enum, default_value_t = Spoken::Both)]
    generation: Spoken,
    /// Worker threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

/// Generations that a backend supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Spoken {
    Both,
    Stateful,
    Stateless,
}

#[derive(Debug)]
struct Server {
    name: String,
    spoken: Spoken,
    catalog: Catalog,
    counters: Counters,
    streams: Streams,
}

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let args = Args::parse();
    crate::run(args.threads, serve(args))
}

async fn serve(args: Args) -> Result<ExitCode, BoxError> {
    let Args { listen, name, tools, generation, threads: _ } = args;
    let server = Arc::new(Server {
        name,
        spoken: generation,
        catalog: Catalog::new(tools),
        counters: Counters::default(),
        streams: Streams::default(),
    });
    let listener = TcpListener::bind(listen).await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        server.counters.connections.fetch_add(1, Relaxed);
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            let service =
                service_fn(|request| async { Ok::<_, Infallible>(server.answer(request).await) });
            // A client that disconnects early is not a fault of the server.
            _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

impl Server {
    async fn answer(&self, request: Request<Incoming>) -> BackendResponse {
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/stats") => json(StatusCode::OK, self.counters.read().to_json()),
            (&Method::POST, "/change") => self.change(),
            (&Method::POST, _) => self.post(request).await,
            (&Method::GET, _) => self.listen(&request),
            (&Method::DELETE, _) => {
                self.counters.delete.fetch_add(1, Relaxed);
                empty(StatusCode::NO_CONTENT)
            }
            _ => empty(StatusCode::METHOD_NOT_ALLOWED),
        }
    }

    /// Renames a tool and notifies every open stream.
    fn change(&self) -> BackendResponse {
        let name = self.catalog.rename_one();
        self.streams.announce();
        json(StatusCode::OK, format!("\"{name}\""))
    }

    /// Opens the notification stream of a session.
    fn listen(&self, request: &Request<Incoming>) -> BackendResponse {
        self.counters.get.fetch_add(1, Relaxed);
        let wanted = request.headers().get(ACCEPT).is_some_and(|value| {
            value.as_bytes().windows(17).any(|part| part.eq_ignore_ascii_case(b"text/event-stream"))
        });
        if self.spoken == Spoken::Stateless || !wanted {
            return empty(StatusCode::METHOD_NOT_ALLOWED);
        }
        events(self.streams.open(None))
    }

    async fn post(&self, request: Request<Incoming>) -> BackendResponse {
        let revision = request.headers().get("mcp-protocol-version");
        let stateless = revision.is_some_and(|value| value == Generation::Stateless.revision());
        let Ok(body) = request.into_body().collect().await else {
            return empty(StatusCode::BAD_REQUEST);
        };
        let body = body.to_bytes();
        let Ok(message) = serde_json::from_slice::<Message<'_>>(&body) else {
            return refusal(StatusCode::BAD_REQUEST, "null", -32700, "not a JSON-RPC message");
        };
        let Some(id) = message.id else {
            self.counters.notification.fetch_add(1, Relaxed);
            return empty(StatusCode::ACCEPTED);
        };
        let id = id.get();
        match (self.spoken, stateless) {
            (Spoken::Stateful, true) => {
                refusal(StatusCode::BAD_REQUEST, id, -32600, "unsupported protocol version")
            }
            (Spoken::Stateless, false) => {
                refusal(StatusCode::BAD_REQUEST, id, -32022, "only MCP 2026-07-28 is spoken here")
            }
            _ => self.dispatch(id, &message.method, &message.params.unwrap_or_default(), stateless),
        }
    }

    fn dispatch(
        &self,
        id: &str,
        method: &str,
        params: &Params<'_>,
        stateless: bool,
    ) -> BackendResponse {
        let counters = &self.counters;
        let (counter, members) = match method {
            "initialize" if !stateless => return self.initialize(id, params),
            "subscriptions/listen" if stateless => {
                counters.listen.fetch_add(1, Relaxed);
                return events(self.streams.open(Some(id)));
            }
            "server/discover" if stateless => (&counters.discover, Some(self.discovery())),
            "tools/list" => (&counters.list, Some(self.catalog.members(stateless))),
            "tools/call" => (&counters.call, called(params)),
            "ping" => (&counters.other, Some(String::new())),
            _ => {
                counters.other.fetch_add(1, Relaxed);
                let status = if stateless { StatusCode::NOT_FOUND } else { StatusCode::OK };
                return refusal(status, id, -32601, "method not found");
            }
        };
        counter.fetch_add(1, Relaxed);
        match members {
            Some(members) => result(id, &members, stateless),
            None => refusal(StatusCode::OK, id, -32602, "unknown tool, or other arguments"),
        }
    }

    fn initialize(&self, id: &str, params: &Params<'_>) -> BackendResponse {
        let number = self.counters.initialize.fetch_add(1, Relaxed);
        let known = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
        let asked = params.protocol_version.as_deref().unwrap_or_default();
        let revision = known.into_iter().find(|known| *known == asked).unwrap_or(known[0]);
        let name = &self.name;
        let members = format!(
            r#""protocolVersion":"{revision}","capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{{"name":"{name}","version":"1.0.0"}}"#
        );
        let mut response = result(id, &members, false);
        if let Ok(session) = HeaderValue::from_str(&format!("{name}-{number:032x}")) {
            response.headers_mut().insert("mcp-session-id", session);
        }
        response
    }

    fn discovery(&self) -> String {
        let older = if self.spoken == Spoken::Both { r#","2025-11-25""# } else { "" };
        format!(
            r#""supportedVersions":["2026-07-28"{older}],"capabilities":{{"tools":{{"listChanged":true}}}},"ttlMs":300000,"cacheScope":"public","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"{}","version":"1.0.0"}}}}"#,
            self.name
        )
    }
}

/// Returns the members of a call's result, or `None` if the tool does not exist.
fn called(params: &Params<'_>) -> Option<String> {
    let name = params.name.as_deref()?;
    let arguments = params.arguments.as_ref();
    let text = match name {
        "echo" => arguments?.text?.get().to_owned(),
        "blob" => format!("\"{}\"", "x".repeat(arguments?.bytes?.min(LARGEST_BLOB))),
        _ if name.starts_with("tool_") => format!("\"{name}\""),
        _ => return None,
    };
    Some(format!(r#""content":[{{"type":"text","text":{text}}}],"isError":false"#))
}

fn result(id: &str, members: &str, stateless: bool) -> BackendResponse {
    let kind = match (stateless, members.is_empty()) {
        (true, true) => r#""resultType":"complete""#,
        (true, false) => r#""resultType":"complete","#,
        (false, _) => "",
    };
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{kind}{members}}}}}"#);
    json(StatusCode::OK, body)
}

fn refusal(status: StatusCode, id: &str, code: i32, message: &str) -> BackendResponse {
    let error = format!(r#"{{"code":{code},"message":"{message}"}}"#);
    json(status, format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#))
}

fn json(status: StatusCode, body: String) -> BackendResponse {
    let mut response = Response::new(Either::Left(Full::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn empty(status: StatusCode) -> BackendResponse {
    let mut response = Response::new(Either::Left(Full::default()));
    *response.status_mut() = status;
    response
}

fn events(body: Channel<Bytes>) -> BackendResponse {
    let mut response = Response::new(Either::Right(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(text: &str) -> Params<'_> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn echo_returns_text_unchanged() {
        let members = called(&params(r#"{"name":"echo","arguments":{"text":"a\u0041 \"\\"}}"#));
        assert!(members.unwrap().contains(r#""text":"a\u0041 \"\\""#));
    }

    #[test]
    fn blob_has_requested_length() {
        let members = called(&params(r#"{"name":"blob","arguments":{"bytes":5}}"#)).unwrap();
        assert!(members.contains(r#""text":"xxxxx""#));
    }

    #[test]
    fn rejects_unknown_names_and_missing_arguments() {
        assert_eq!(called(&params(r#"{"name":"rm"}"#)), None);
        assert_eq!(called(&params(r#"{"name":"echo","arguments":{}}"#)), None);
        assert_eq!(called(&params(r#"{"name":"blob"}"#)), None);
    }
}
