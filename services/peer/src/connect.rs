//! Connections to other replicas.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs as provider,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, PeerIncompatible, SignatureScheme,
};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use vmcp_seal::KeyRing;

use crate::counts::Gauge;
use crate::error::ForwardError;
use crate::handle::ReplicaHandle;
use crate::identity::KeyHash;
use crate::proof::{self, Role};
use crate::transport::{
    CONNECTION_WINDOW, MAX_HEADERS_SIZE, PING_INTERVAL, PING_TIMEOUT, STREAM_WINDOW,
};

/// Time within which a connection has to be ready for requests.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum number of attempts in this time. A listener with too many connections closes those that have not proved the key ring.
const MAX_ATTEMPTS: usize = 3;

/// Pause between attempts.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(100);

/// Sender of requests on a connection.
pub(crate) type Sender = SendRequest<Full<Bytes>>;

/// Opens a connection to exactly the process that `peer` names. Both sides have proved the key ring.
pub(crate) async fn connect(
    peer: &ReplicaHandle,
    own: &ReplicaHandle,
    ring: &KeyRing,
    open: &Gauge,
) -> Result<Sender, ForwardError> {
    let connecting = async {
        let mut attempts = 1;
        loop {
            match attempt(peer, own, ring, open).await {
                Err(error) if attempts < MAX_ATTEMPTS && is_closed(&error) => {
                    attempts += 1;
                    sleep(ATTEMPT_INTERVAL).await;
                }
                result => return result,
            }
        }
    };
    let connected = timeout(CONNECT_TIMEOUT, connecting).await;
    connected.unwrap_or_else(|elapsed| Err(unreachable(peer.address, elapsed.into())))
}

async fn attempt(
    peer: &ReplicaHandle,
    own: &ReplicaHandle,
    ring: &KeyRing,
    open: &Gauge,
) -> Result<Sender, ForwardError> {
    let address = peer.address;
    let unreachable = |source| unreachable(address, source);
    let stream = TcpStream::connect(address).await.map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable => {
            ForwardError::NoListener { address, source: Arc::new(error) }
        }
        _ => unreachable(error),
    })?;
    let mut stream = secure(stream, peer).await.map_err(|error| {
        if is_other_process(&error) {
            ForwardError::OtherProcess(address)
        } else {
            unreachable(error)
        }
    })?;
    let channel = proof::channel(stream.get_ref().1).map_err(unreachable)?;
    proof::send(&mut stream, ring, Role::Forwarder, &channel, own).await.map_err(unreachable)?;
    // A listener closes the connection if it does not accept the proof.
    match proof::receive(&mut stream, ring, Role::Holder, &channel).await {
        Ok(Some(handle)) if handle.process == peer.process => {}
        _ => return Err(ForwardError::NotProven(address)),
    }
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        // So that no request is sent on a connection to a replica that stopped a while ago.
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEADERS_SIZE)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| unreachable(io::Error::other(error)))?;
    let entered = open.enter();
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to a replica ended");
        }
        drop(entered);
    });
    Ok(sender)
}

fn unreachable(address: SocketAddr, source: io::Error) -> ForwardError {
    ForwardError::Unreachable { address, source: Arc::new(source) }
}

/// Returns `true` if the other process closed the connection before its proof.
fn is_closed(error: &ForwardError) -> bool {
    match error {
        ForwardError::NotProven(_) => true,
        ForwardError::Unreachable { source, .. } => matches!(
            source.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
        ),
        _ => false,
    }
}

async fn secure(stream: TcpStream, peer: &ReplicaHandle) -> io::Result<TlsStream<TcpStream>> {
    stream.set_nodelay(true)?;
    let config = client_config(peer.key).map_err(io::Error::other)?;
    let name = ServerName::from(peer.address.ip());
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

fn client_config(key: KeyHash) -> Result<ClientConfig, Error> {
    let crypto = Arc::new(provider::default_provider());
    let verifier = PinnedKey::new(key, &crypto);
    let mut config = ClientConfig::builder_with_provider(crypto)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.enable_sni = false;
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Returns `true` if the error shows that the process with the pinned key does not listen at the address: it never sends what is not
/// TLS, another key or an alert about the handshake.
fn is_other_process(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(
        inner,
        Some(
            Error::InvalidCertificate(_)
                | Error::InvalidMessage(_)
                | Error::InappropriateMessage { .. }
                | Error::InappropriateHandshakeMessage { .. }
                | Error::PeerIncompatible(_)
                | Error::PeerMisbehaved(_)
                | Error::AlertReceived(_)
        )
    )
}

/// Verifier that accepts one public key.
#[derive(Debug)]
struct PinnedKey {
    key: KeyHash,
    algorithms: WebPkiSupportedAlgorithms,
}

impl PinnedKey {
    fn new(key: KeyHash, provider: &CryptoProvider) -> Self {
        Self { key, algorithms: provider.signature_verification_algorithms }
    }
}

impl ServerCertVerifier for PinnedKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if digest(&SHA256, end_entity.as_ref()).as_ref() == self.key {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
