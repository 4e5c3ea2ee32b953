//! Connection setup: address, TCP, TLS, authentication.
//!
//! The `redis` crate would read the root certificates of the system for each connection, even with a CA of its own, as
//! the test `own_ca_needs_no_system_roots` shows, and has no write timeout.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, RedisConnectionInfo};
use rustls::pki_types::ServerName;
use secrecy::ExposeSecret;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsConnector;

use crate::connection::Connection;
use crate::{Credentials, Error, Node, Timeouts, Tls};

/// Opens connections to servers that share credentials, TLS settings and timeouts.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    pub(crate) credentials: Credentials,
    pub(crate) tls: Option<Tls>,
    pub(crate) timeouts: Timeouts,
    pub(crate) database: u32,
}

type BoxedStream = Pin<Box<TimeoutStream<Box<dyn AsyncStream>>>>;

trait AsyncStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> AsyncStream for S {}

impl Dialer {
    /// Returns an authenticated connection with its database selected, to the first of the host's
    /// addresses that accepts one.
    pub(crate) async fn dial(&self, node: &Node) -> Result<Connection, Error> {
        self.with_dial_timeout(node, async {
            self.handshake(node, self.open_stream(node).await?).await
        })
        .await
    }

    /// Returns a connection to one of the host's addresses.
    pub(crate) async fn dial_at(
        &self,
        node: &Node,
        address: SocketAddr,
    ) -> Result<Connection, Error> {
        let connecting =
            async { self.handshake(node, self.open_stream_to(node, address).await?).await };
        self.with_dial_timeout(node, connecting).await
    }

    async fn handshake(&self, node: &Node, stream: BoxedStream) -> Result<Connection, Error> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(self.timeouts.read));
        let info = self.connection_info();
        let connecting = MultiplexedConnection::new_with_config(&info, stream, config);
        let (connection, driver) =
            connecting.await.map_err(|error| Error::from_redis(&error, node))?;
        Ok(Connection::new(node.clone(), connection, driver))
    }

    async fn with_dial_timeout<T>(
        &self,
        node: &Node,
        connecting: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let timed_out = |_| Error::Timeout { node: node.clone() };
        timeout(self.timeouts.dial, connecting).await.map_err(timed_out)?
    }

    /// Returns a connection that is subscribed to a channel.
    pub(crate) async fn connect_pub_sub(
        &self,
        node: &Node,
        channel: &str,
    ) -> Result<PubSub, Error> {
        let connecting = async {
            let stream = self.open_stream(node).await?;
            let failed = |error| Error::from_redis(&error, node);
            let mut pub_sub = PubSub::new(&self.connection_info(), stream).await.map_err(failed)?;
            pub_sub.subscribe(channel).await.map_err(failed)?;
            Ok(pub_sub)
        };
        self.with_dial_timeout(node, connecting).await
    }

    fn connection_info(&self) -> RedisConnectionInfo {
        let mut info =
            RedisConnectionInfo::default().set_db(i64::from(self.database)).set_skip_set_lib_name();
        if let Some(password) = &self.credentials.password {
            info = info.set_password(password.expose_secret());
            if let Some(user) = &self.credentials.user {
                info = info.set_username(user.expose_secret());
            }
        }
        info
    }

    async fn open_stream(&self, node: &Node) -> Result<BoxedStream, Error> {
        let found = resolve(node, self.timeouts.dial).await?;
        // An unresponsive address leaves time for the others.
        let per_address = self.timeouts.dial / u32::try_from(found.len()).unwrap_or(u32::MAX);
        let mut last = Error::Timeout { node: node.clone() };
        for address in found {
            match timeout(per_address, self.open_stream_to(node, address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => last = error,
                Err(_) => last = Error::Timeout { node: node.clone() },
            }
        }
        Err(last)
    }

    async fn open_stream_to(&self, node: &Node, address: SocketAddr) -> Result<BoxedStream, Error> {
        let failed =
            |error: io::Error| Error::Connect { node: node.clone(), reason: describe(&error) };
        let stream = TcpStream::connect(address).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let with_write_timeout = |stream: Box<dyn AsyncStream>| {
            let mut stream = TimeoutStream::new(stream);
            stream.set_write_timeout(Some(self.timeouts.write));
            Box::pin(stream)
        };
        let Some(tls) = &self.tls else { return Ok(with_write_timeout(Box::new(stream))) };
        let tls_failed = |error: io::Error| match error.get_ref() {
            Some(inner) if inner.is::<rustls::Error>() => {
                Error::Tls { node: node.clone(), reason: describe(&error) }
            }
            _ => Error::Connect { node: node.clone(), reason: describe(&error) },
        };
        let name = ServerName::try_from(node.host().to_owned())
            .map_err(|_| Error::Tls { node: node.clone(), reason: "invalid host name".into() })?;
        let connector = TlsConnector::from(Arc::clone(&tls.0));
        Ok(with_write_timeout(Box::new(connector.connect(name, stream).await.map_err(tls_failed)?)))
    }
}

/// Resolves a host to all its addresses, at least one.
pub(crate) async fn resolve(node: &Node, limit: Duration) -> Result<Vec<SocketAddr>, Error> {
    let unresolved = |reason| Error::Resolve { node: node.clone(), reason };
    let found = timeout(limit, lookup_host((node.host(), node.port()))).await;
    let found = found.map_err(|_| unresolved("the resolver did not respond".into()))?;
    let found: Vec<_> = found.map_err(|error| unresolved(describe(&error)))?.collect();
    if found.is_empty() { Err(unresolved("the name has no address".into())) } else { Ok(found) }
}

/// Formats an error with its cause.
fn describe(error: &io::Error) -> Arc<str> {
    let cause = error.get_ref().and_then(|inner| inner.source());
    match cause {
        Some(cause) => format!("{error}: {cause}").into(),
        None => error.to_string().into(),
    }
}
