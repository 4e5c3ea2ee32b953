//! Making a connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, RedisConnectionInfo};
use rustls::pki_types::ServerName;
use secrecy::ExposeSecret;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::link::Link;
use crate::stream::Deadline;
use crate::{Credentials, Fault, Node, Timeouts, Tls};

/// How to reach servers of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Dialer {
    pub(crate) credentials: Credentials,
    pub(crate) tls: Option<Tls>,
    pub(crate) timeouts: Timeouts,
    pub(crate) database: u32,
}

type Guarded = Deadline<Box<dyn Stream>>;

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

impl Dialer {
    /// A connection, authenticated, with its database chosen: to the first of the host's addresses
    /// that accepts one.
    pub(crate) async fn dial(&self, node: &Node) -> Result<Link, Fault> {
        self.in_time(node, async { self.connection(node, self.stream(node).await?).await }).await
    }

    /// The same, to one of the host's addresses.
    pub(crate) async fn dial_at(&self, node: &Node, address: SocketAddr) -> Result<Link, Fault> {
        let connecting = async { self.connection(node, self.one(node, address).await?).await };
        self.in_time(node, connecting).await
    }

    async fn connection(&self, node: &Node, stream: Guarded) -> Result<Link, Fault> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(self.timeouts.read));
        let info = self.info();
        let connecting = MultiplexedConnection::new_with_config(&info, stream, config);
        let (connection, driver) = connecting.await.map_err(|error| Fault::of(&error, node))?;
        Ok(Link::new(node.clone(), connection, driver))
    }

    async fn in_time<T>(
        &self,
        node: &Node,
        connecting: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let slow = |_| Fault::Slow { node: node.clone() };
        timeout(self.timeouts.dial, connecting).await.map_err(slow)?
    }

    /// A connection that messages are heard on.
    pub(crate) async fn listen(&self, node: &Node, channel: &str) -> Result<PubSub, Fault> {
        let connecting = async {
            let stream = self.stream(node).await?;
            let failed = |error| Fault::of(&error, node);
            let mut listening = PubSub::new(&self.info(), stream).await.map_err(failed)?;
            listening.subscribe(channel).await.map_err(failed)?;
            Ok(listening)
        };
        self.in_time(node, connecting).await
    }

    fn info(&self) -> RedisConnectionInfo {
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

    async fn stream(&self, node: &Node) -> Result<Guarded, Fault> {
        let found = addresses(node, self.timeouts.dial).await?;
        // One that doesn't answer leaves time for the others.
        let each = self.timeouts.dial / u32::try_from(found.len()).unwrap_or(u32::MAX);
        let mut last = Fault::Slow { node: node.clone() };
        for address in found {
            match timeout(each, self.one(node, address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(fault)) => last = fault,
                Err(_) => last = Fault::Slow { node: node.clone() },
            }
        }
        Err(last)
    }

    async fn one(&self, node: &Node, address: SocketAddr) -> Result<Guarded, Fault> {
        let failed = |error: io::Error| Fault::Dial { node: node.clone(), reason: said(&error) };
        let stream = TcpStream::connect(address).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let guarded = |stream: Box<dyn Stream>| Deadline::new(stream, self.timeouts.write);
        let Some(tls) = &self.tls else { return Ok(guarded(Box::new(stream))) };
        let untrusted = |error: io::Error| match error.get_ref() {
            Some(inner) if inner.is::<rustls::Error>() => {
                Fault::Tls { node: node.clone(), reason: said(&error) }
            }
            _ => Fault::Dial { node: node.clone(), reason: said(&error) },
        };
        let name = ServerName::try_from(node.host().to_owned())
            .map_err(|_| Fault::Tls { node: node.clone(), reason: "it is no host name".into() })?;
        let connector = TlsConnector::from(Arc::clone(&tls.0));
        Ok(guarded(Box::new(connector.connect(name, stream).await.map_err(untrusted)?)))
    }
}

/// All addresses of a host, at least one.
pub(crate) async fn addresses(node: &Node, within: Duration) -> Result<Vec<SocketAddr>, Fault> {
    let unknown = |reason| Fault::Resolve { node: node.clone(), reason };
    let found = timeout(within, lookup_host((node.host(), node.port()))).await;
    let found = found.map_err(|_| unknown("the resolver doesn't answer".into()))?;
    let found: Vec<_> = found.map_err(|error| unknown(said(&error)))?.collect();
    if found.is_empty() { Err(unknown("it has no address".into())) } else { Ok(found) }
}

/// An error in words, with what caused it.
fn said(error: &io::Error) -> Arc<str> {
    let cause = error.get_ref().and_then(|inner| inner.source());
    match cause {
        Some(cause) => format!("{error}: {cause}").into(),
        None => error.to_string().into(),
    }
}
