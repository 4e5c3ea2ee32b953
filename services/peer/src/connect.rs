//! Connections to other replicas.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
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
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use vmcp_seal::KeyRing;

use crate::counts::Gauge;
use crate::error::ForwardError;
use crate::handle::ReplicaHandle;
use crate::identity::KeyHash;
use crate::proof::{self, Role};

/// Time within which a connection has to be ready for requests.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Time of silence after which the system probes a connection, and the interval of the probes.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Sender of requests on a connection.
pub(crate) type Sender = SendRequest<Full<Bytes>>;

/// Opens a connection to exactly the process that `peer` names. Both sides have proved the key ring.
pub(crate) async fn connect(
    peer: &ReplicaHandle,
    own: &ReplicaHandle,
    ring: &KeyRing,
    open: &Gauge,
) -> Result<Sender, ForwardError> {
    let address = peer.address;
    let unreachable = |source| ForwardError::Unreachable { address, source };
    timeout(CONNECT_TIMEOUT, async {
        let mut stream = secure(peer).await.map_err(|error| {
            if is_other_key(&error) {
                ForwardError::OtherProcess(address)
            } else {
                unreachable(error)
            }
        })?;
        let channel = proof::channel(stream.get_ref().1).map_err(unreachable)?;
        proof::send(&mut stream, ring, Role::Forwarder, &channel, own)
            .await
            .map_err(unreachable)?;
        // A listener closes the connection if it does not accept the proof.
        match proof::receive(&mut stream, ring, Role::Holder, &channel).await {
            Ok(Some(handle)) if handle.process == peer.process => {}
            _ => return Err(ForwardError::NotProven(address)),
        }
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
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
    })
    .await
    .unwrap_or_else(|elapsed| Err(unreachable(elapsed.into())))
}

async fn secure(peer: &ReplicaHandle) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(peer.address).await?;
    stream.set_nodelay(true)?;
    let keep_alive = TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE);
    SockRef::from(&stream).set_tcp_keepalive(&keep_alive)?;
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

fn is_other_key(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(
        inner,
        Some(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
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
