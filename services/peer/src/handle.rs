//! Names of replicas.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use vmcp_seal::{KeyRing, RandomError, SealPurpose};

use crate::error::HandleError;
use crate::identity::{KeyHash, ProcessId};

/// Version of the encoding.
const VERSION: u8 = 1;

/// Maximum length of a sealed handle, in characters. That of an IPv6 address has about 140.
const MAX_LENGTH: usize = 256;

/// Address of a replica, and the key of its process. Clients carry it sealed: they can neither read nor make one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReplicaHandle {
    pub(crate) address: SocketAddr,
    pub(crate) key: KeyHash,
    pub(crate) process: ProcessId,
}

impl ReplicaHandle {
    /// Returns the address of the replica's peer listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        match self.address.ip().to_canonical() {
            IpAddr::V4(ip) => {
                bytes.push(4);
                bytes.extend_from_slice(&ip.octets());
            }
            IpAddr::V6(ip) => {
                bytes.push(6);
                bytes.extend_from_slice(&ip.octets());
            }
        }
        bytes.extend_from_slice(&self.address.port().to_be_bytes());
        bytes.extend_from_slice(&self.key);
        bytes.extend_from_slice(&self.process);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (ip, rest) = match bytes.split_at_checked(2)? {
            ([VERSION, 4], rest) => {
                let (ip, rest) = rest.split_first_chunk::<4>()?;
                (IpAddr::from(Ipv4Addr::from(*ip)), rest)
            }
            ([VERSION, 6], rest) => {
                let (ip, rest) = rest.split_first_chunk::<16>()?;
                (IpAddr::from(Ipv6Addr::from(*ip)), rest)
            }
            _ => return None,
        };
        let (port, rest) = rest.split_first_chunk::<2>()?;
        let (key, process) = rest.split_first_chunk::<32>()?;
        let address = SocketAddr::new(ip.to_canonical(), u16::from_be_bytes(*port));
        Some(Self { address, key: *key, process: process.try_into().ok()? })
    }

    /// Seals the handle to a text of letters, digits, `-` and `_`.
    pub(crate) fn seal(&self, ring: &KeyRing) -> Result<String, RandomError> {
        let sealed = ring.seal(SealPurpose::PeerHandle, &self.encode(), b"")?;
        Ok(BASE64_URL_SAFE_NO_PAD.encode(sealed))
    }

    pub(crate) fn open(text: &str, ring: &KeyRing) -> Result<Self, HandleError> {
        if text.len() > MAX_LENGTH {
            return Err(HandleError::Invalid);
        }
        let sealed = BASE64_URL_SAFE_NO_PAD.decode(text).map_err(|_| HandleError::Invalid)?;
        let opened =
            ring.open(SealPurpose::PeerHandle, &sealed, b"").ok_or(HandleError::Invalid)?;
        Self::decode(&opened).ok_or(HandleError::Invalid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_only_what_it_encodes() {
        for address in ["10.1.2.3:4484", "[fd00::1]:4484"] {
            let address = address.parse().unwrap();
            let handle = ReplicaHandle { address, key: [7; 32], process: [9; 16] };
            let bytes = handle.encode();
            assert_eq!(ReplicaHandle::decode(&bytes), Some(handle));
            for length in 0..bytes.len() {
                assert_eq!(ReplicaHandle::decode(&bytes[..length]), None);
            }
            assert_eq!(ReplicaHandle::decode(&[&bytes[..], &[0]].concat()), None);
            assert_eq!(ReplicaHandle::decode(&[&[2], &bytes[1..]].concat()), None);
        }
    }
}
