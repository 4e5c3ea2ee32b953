//! Form of the ids that clients return to the gateway: those of server requests and events.

use std::fmt::Write;

use bytes::Bytes;
use vmcp_peer::PeerClient;
use vmcp_wire::parse_json_string;

/// Separator between a random number and the handle of its replica.
const SEPARATOR: char = '.';

/// Number of bits of a random number that is JSON. Clients may read numbers as binary64.
const JSON_NUMBER_BITS: u32 = 53;

/// Form of the ids of a session.
#[derive(Clone, Debug, Default)]
pub(crate) enum IdForm {
    /// Numbers in their order: no other process continues the session.
    #[default]
    Serial,
    /// Random numbers, so that an id of another replica, or of an evicted session, names nothing here.
    Random,
    /// 128 random bits and the handle of this replica, so that another one can forward what a client sends under the id.
    Replica(PeerClient),
}

/// Id of a server request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerRequestId {
    pub(super) number: u128,
    json: Bytes,
}

/// Id of a server request as a client sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedId {
    pub(super) number: u128,
    /// Sealed handle of the replica that sent the request.
    pub(crate) replica: Option<Box<str>>,
}

impl IdForm {
    /// Returns the id of the server request with this serial number.
    pub(super) fn server_request(&self, serial: u64) -> ServerRequestId {
        let number = match self {
            Self::Serial => serial.into(),
            Self::Random => random() >> (u128::BITS - JSON_NUMBER_BITS),
            Self::Replica(_) => random(),
        };
        let json = match self {
            Self::Serial | Self::Random => number.to_string(),
            Self::Replica(peers) => format!("\"{}\"", with_handle(number, peers)),
        };
        ServerRequestId { number, json: json.into() }
    }

    /// Returns the name of the stream with this serial number, for event ids.
    pub(super) fn stream(&self, serial: u32) -> Box<str> {
        match self {
            Self::Serial => serial.to_string(),
            Self::Random => format!("{:032x}", random()),
            Self::Replica(peers) => with_handle(random(), peers),
        }
        .into()
    }
}

impl ServerRequestId {
    /// Returns the id as JSON.
    pub(crate) fn to_json(&self) -> &Bytes {
        &self.json
    }
}

impl ReceivedId {
    /// Parses an id, which is JSON. `None` if the gateway gives no such ids.
    pub(crate) fn parse(json: &[u8]) -> Option<Self> {
        if json.first() != Some(&b'"') {
            let number = std::str::from_utf8(json).ok()?.parse().ok()?;
            return Some(Self { number, replica: None });
        }
        let text = parse_json_string(json)?;
        let (number, replica) = text.split_once(SEPARATOR)?;
        if number.len() != 32 || number.starts_with('+') {
            return None;
        }
        let number = u128::from_str_radix(number, 16).ok()?;
        Some(Self { number, replica: Some(replica.into()) })
    }
}

/// Returns the sealed handle of the replica that a stream's name contains.
pub(crate) fn replica_of(stream: &str) -> Option<&str> {
    stream.split_once(SEPARATOR).map(|(_, replica)| replica)
}

fn with_handle(number: u128, peers: &PeerClient) -> String {
    let handle = peers.sealed_handle().expect("the operating system has random numbers");
    let mut id = String::with_capacity(33 + handle.len());
    write!(id, "{number:032x}{SEPARATOR}{handle}").expect("a string takes all text");
    id
}

fn random() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    u128::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use vmcp_core::Clock;
    use vmcp_peer::{PeerIdentity, PeerNetworks, PeerSettings};
    use vmcp_seal::{KeyRing, SealKey};

    use super::*;

    fn peers() -> PeerClient {
        let ring = KeyRing::new("", &[SealKey::from_bytes([1; 32])], Clock::system()).unwrap();
        let address = "10.0.0.1:4484".parse().unwrap();
        let settings = PeerSettings { address, networks: PeerNetworks::Networks(Vec::new()) };
        PeerClient::new(PeerIdentity::generate().unwrap(), settings, ring)
    }

    #[test]
    fn serial_ids_are_short() {
        assert_eq!(&**IdForm::Serial.server_request(7).to_json(), b"7");
        assert_eq!(&*IdForm::Serial.stream(0), "0");
    }

    #[test]
    fn random_ids_are_exact_in_binary64() {
        for _ in 0..100 {
            let id = IdForm::Random.server_request(1);
            assert!(id.number < 1 << 53);
            assert_eq!(ReceivedId::parse(id.to_json()).unwrap().number, id.number);
        }
        let form = IdForm::Random;
        assert_ne!(form.stream(0), form.stream(0));
    }

    #[tokio::test]
    async fn ids_of_replica_contain_its_handle() {
        let peers = peers();
        let form = IdForm::Replica(peers.clone());
        let id = form.server_request(1);
        assert_ne!(form.server_request(1), id);
        let received = ReceivedId::parse(id.to_json()).unwrap();
        assert_eq!(received.number, id.number);
        let handle = peers.open(&received.replica.unwrap()).unwrap();
        assert!(peers.is_own(&handle));
        let stream = form.stream(0);
        assert!(peers.is_own(&peers.open(replica_of(&stream).unwrap()).unwrap()));
        assert!(stream.len() < 256, "{stream}");
    }

    #[test]
    fn rejects_ids_of_others() {
        let signed = format!("\"+{:031}.y\"", 1);
        for json in ["", "null", "-1", "1.0", "\"1\"", "\"x.y\"", &signed, "{}"] {
            assert_eq!(ReceivedId::parse(json.as_bytes()), None, "{json}");
        }
    }
}
