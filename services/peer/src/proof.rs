//! Proof that a process has the key ring, bound to one TLS connection.
//!
//! Each side seals its role with the value that TLS exports for the connection (RFC 8446, 7.5) as associated data. A proof opens for
//! no other connection and no other role.

use std::io;

use rustls::ConnectionCommon;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use vmcp_seal::{KeyRing, SealPurpose};

use crate::handle::ReplicaHandle;

const EXPORTER_LABEL: &[u8] = b"EXPORTER-vmcp-peer-v1";

/// Maximum length of a proof in bytes.
const MAX_LENGTH: usize = 512;

/// Value that both ends of a connection export.
pub(crate) type Channel = [u8; 32];

/// Role of a process in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Role {
    Forwarder = 1,
    Holder = 2,
}

/// Returns the exported value of a connection after its handshake.
pub(crate) fn channel<T>(connection: &ConnectionCommon<T>) -> io::Result<Channel> {
    connection
        .export_keying_material(Channel::default(), EXPORTER_LABEL, None)
        .map_err(io::Error::other)
}

/// Sends the proof of this process, with its handle.
pub(crate) async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    ring: &KeyRing,
    role: Role,
    channel: &Channel,
    own: &ReplicaHandle,
) -> io::Result<()> {
    let mut value = vec![role as u8];
    value.extend_from_slice(&own.encode());
    let proof = ring.seal(SealPurpose::PeerProof, &value, channel).map_err(io::Error::other)?;
    let length = u16::try_from(proof.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], &proof].concat()).await?;
    stream.flush().await
}

/// Receives the proof of the other process, and returns its handle; `None` if the proof is not valid for this connection.
pub(crate) async fn receive(
    stream: &mut (impl AsyncRead + Unpin),
    ring: &KeyRing,
    role: Role,
    channel: &Channel,
) -> io::Result<Option<ReplicaHandle>> {
    let length = usize::from(stream.read_u16().await?);
    if length > MAX_LENGTH {
        return Ok(None);
    }
    let mut proof = vec![0; length];
    stream.read_exact(&mut proof).await?;
    let opened = ring.open(SealPurpose::PeerProof, &proof, channel);
    let handle = opened.as_deref().and_then(|value| match value.split_first() {
        Some((&sent, handle)) if sent == role as u8 => ReplicaHandle::decode(handle),
        _ => None,
    });
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use vmcp_core::Clock;
    use vmcp_seal::SealKey;

    use super::*;

    fn ring(byte: u8) -> KeyRing {
        KeyRing::new("server", &[SealKey::from_bytes([byte; 32])], Clock::system()).unwrap()
    }

    fn own() -> ReplicaHandle {
        let address = "10.0.0.1:4484".parse().unwrap();
        ReplicaHandle { address, key: [1; 32], process: [2; 16] }
    }

    async fn proof() -> Vec<u8> {
        let mut sent = Vec::new();
        send(&mut sent, &ring(1), Role::Forwarder, &[1; 32], &own()).await.unwrap();
        sent
    }

    async fn open(proof: &[u8], ring: &KeyRing, role: Role, channel: u8) -> Option<ReplicaHandle> {
        let mut proof = proof;
        receive(&mut proof, ring, role, &[channel; 32]).await.unwrap()
    }

    #[tokio::test]
    async fn opens_for_same_channel_and_role_only() {
        let proof = proof().await;
        assert_eq!(open(&proof, &ring(1), Role::Forwarder, 1).await, Some(own()));
        assert_eq!(open(&proof, &ring(1), Role::Forwarder, 2).await, None, "replayed");
        assert_eq!(open(&proof, &ring(1), Role::Holder, 1).await, None, "reflected");
        assert_eq!(open(&proof, &ring(2), Role::Forwarder, 1).await, None, "other ring");
    }

    #[tokio::test]
    async fn rejects_malformed_proofs() {
        let mut changed = proof().await;
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(open(&changed, &ring(1), Role::Forwarder, 1).await, None);
        assert_eq!(open(&[0xff, 0xff], &ring(1), Role::Forwarder, 1).await, None, "too long");
        assert_eq!(open(&[0, 0], &ring(1), Role::Forwarder, 1).await, None);
        let mut cut = &changed[..9];
        let received = receive(&mut cut, &ring(1), Role::Forwarder, &[1; 32]).await;
        assert!(received.is_err());
    }
}
