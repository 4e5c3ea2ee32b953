//! `bench-proxy`: lower bound for the cost of one HTTP hop.
//!
//! A reverse proxy over hyper with the pool of hyper-util's legacy client. It forwards bodies without parsing them. The
//! difference to this proxy is the gateway's own work.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::ExitCode;

use bytes::Bytes;
use clap::Parser;
use http::header::{CONNECTION, HOST, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{Either, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpListener;

use crate::BoxError;

/// A bare reverse proxy with a pool of connections.
#[derive(Debug, Parser)]
#[command(name = "bench-proxy")]
struct Args {
    /// The address to listen on; port 0 takes a free one. The first line on stdout is the address.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Address of the server behind the proxy.
    #[arg(long)]
    to: SocketAddr,
    /// Worker threads.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

/// A proxy with a pool of connections to its server.
#[derive(Clone)]
struct Proxy {
    pool: Client<HttpConnector, Incoming>,
    authority: Authority,
    host: HeaderValue,
}

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let args = Args::parse();
    crate::run(args.threads, serve(args))
}

async fn serve(args: Args) -> Result<ExitCode, BoxError> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let to = args.to.to_string();
    let proxy = Proxy {
        pool: Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector),
        authority: to.parse()?,
        host: to.parse()?,
    };
    let listener = TcpListener::bind(args.listen).await?;
    println!("{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let proxy = proxy.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| proxy.forward(request));
            // A client that disconnects early is not a fault of the proxy.
            _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

impl Proxy {
    async fn forward(
        &self,
        mut request: Request<Incoming>,
    ) -> Result<Response<Either<Incoming, Empty<Bytes>>>, Infallible> {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(Scheme::HTTP);
        parts.authority = Some(self.authority.clone());
        parts.path_and_query.get_or_insert(PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
        request.headers_mut().insert(HOST, self.host.clone());
        request.headers_mut().remove(CONNECTION);
        Ok(self.pool.request(request).await.map_or_else(
            |_| {
                let mut response = Response::new(Either::Right(Empty::new()));
                *response.status_mut() = StatusCode::BAD_GATEWAY;
                response
            },
            |response| response.map(Either::Left),
        ))
    }
}
