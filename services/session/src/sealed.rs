//! Session identifiers that contain the session, sealed for its owner.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use vmcp_core::{Clock, Identity, STATEFUL};
use vmcp_seal::{KeyRing, RandomError, SealPurpose};

use crate::SessionId;

/// Time for which the identifier of a session opens.
pub const SEALED_SESSION_LIFETIME: Duration = Duration::from_hours(7 * 24);

/// Maximum length of an identifier, in characters.
const MAX_LENGTH: usize = 1024;

/// Maximum length of a client's name and of its version, in characters. More is cut off.
const MAX_TEXT_CHARACTERS: usize = 64;

/// Maximum difference between the clocks of two replicas, in seconds.
const LEEWAY_SECS: u64 = 60;

/// The same in milliseconds.
const LEEWAY_MILLIS: u64 = LEEWAY_SECS * 1000;

const FORMAT: u8 = 2;

/// Length of a random [`SessionId`], which precedes the sealed part.
const ID_LENGTH: usize = 32;

/// Seal of session identifiers. Any replica with the same key ring opens them.
#[derive(Clone, Debug)]
pub struct SessionSeal {
    ring: KeyRing,
    clock: Clock,
}

/// State that a replica needs to continue a session of another replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionClaims {
    /// Protocol revision, one of [`STATEFUL`].
    pub revision: &'static str,
    /// Capabilities of the client, as bits.
    pub capabilities: u16,
    /// Name of the client.
    pub client_name: String,
    /// Version of the client.
    pub client_version: String,
}

/// Opened identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedSessionId {
    /// Random part, which the table of sessions uses.
    pub id: SessionId,
    /// Time of `initialize`, in milliseconds since 1970, after each earlier end of all sessions of the owner.
    pub issued_at: u64,
    /// The session.
    pub claims: SessionClaims,
}

// === impl SessionSeal ===

impl SessionSeal {
    /// Creates a seal that uses a key ring.
    #[must_use]
    pub fn new(ring: KeyRing, clock: Clock) -> Self {
        Self { ring, clock }
    }

    /// Seals a session for its owner: the visible random part, and the sealed rest, at most 1,024 characters.
    ///
    /// # Errors
    /// [`RandomError`] if the system has no random numbers.
    pub fn seal(
        &self,
        id: SessionId,
        owner: &Identity,
        claims: &SessionClaims,
    ) -> Result<String, RandomError> {
        self.seal_at(self.now(), id, owner, claims)
    }

    /// Seals a new session, and returns its identifier with what it contains. All sessions of the owner that began until
    /// `ended_until` have ended: the new one begins after it, also where this replica's clock is behind. While the clocks of all
    /// replicas differ by less than a minute, each opens the identifier at once.
    ///
    /// # Errors
    /// [`RandomError`] if the system has no random numbers.
    pub fn issue(
        &self,
        owner: &Identity,
        claims: SessionClaims,
        ended_until: Option<u64>,
    ) -> Result<(String, OpenedSessionId), RandomError> {
        let id = SessionId::random().ok_or(RandomError)?;
        let issued_at = ended_until.map_or(0, |until| until.saturating_add(1)).max(self.now());
        let text = self.seal_at(issued_at, id, owner, &claims)?;
        Ok((text, OpenedSessionId { id, issued_at, claims }))
    }

    fn seal_at(
        &self,
        issued_at: u64,
        id: SessionId,
        owner: &Identity,
        claims: &SessionClaims,
    ) -> Result<String, RandomError> {
        let value = encode(issued_at, claims);
        let sealed = self.ring.seal(SealPurpose::SessionId, &value, &associated(id, owner))?;
        Ok(format!("{id}{}", BASE64_URL_SAFE_NO_PAD.encode(sealed)))
    }

    /// Opens an identifier of `owner`. `None` for one of another owner, of an unknown key, changed, or expired.
    #[must_use]
    pub fn open(&self, text: &[u8], owner: &Identity) -> Option<OpenedSessionId> {
        let (id, sealed) = split(text)?;
        let sealed = BASE64_URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let value = self.ring.open(SealPurpose::SessionId, &sealed, &associated(id, owner))?;
        let (issued_at, claims) = decode(&value)?;
        let age = (self.now() + LEEWAY_MILLIS).checked_sub(issued_at)?;
        let is_valid = age <= SEALED_SESSION_LIFETIME.as_secs() * 1000 + 2 * LEEWAY_MILLIS;
        is_valid.then_some(OpenedSessionId { id, issued_at, claims })
    }

    /// Returns the milliseconds since 1970.
    #[must_use]
    pub fn now(&self) -> u64 {
        unix_millis(&self.clock)
    }
}

/// Returns the milliseconds since 1970.
#[must_use]
pub fn unix_millis(clock: &Clock) -> u64 {
    let since = clock.now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Splits an identifier into its random part and its sealed part, which is empty without a key ring.
#[must_use]
pub fn split(text: &[u8]) -> Option<(SessionId, &[u8])> {
    let (id, sealed) = text.split_at_checked(ID_LENGTH).filter(|_| text.len() <= MAX_LENGTH)?;
    Some((SessionId::parse(id)?, sealed))
}

/// Returns the data to which the sealed part is bound. Each text is preceded by its length.
fn associated(id: SessionId, owner: &Identity) -> Vec<u8> {
    let mut data = id.to_string().into_bytes();
    for text in [owner.issuer().unwrap_or(""), owner.subject().unwrap_or("")] {
        data.extend_from_slice(&(text.len() as u64).to_be_bytes());
        data.extend_from_slice(text.as_bytes());
    }
    data
}

fn encode(issued_at: u64, claims: &SessionClaims) -> Vec<u8> {
    let SessionClaims { revision, capabilities, client_name, client_version } = claims;
    let revision = STATEFUL.iter().position(|known| known == revision);
    let revision = revision.and_then(|index| u8::try_from(index).ok());
    let mut out = vec![FORMAT, revision.expect("the revision of a session is one of STATEFUL")];
    out.extend_from_slice(&issued_at.to_be_bytes());
    out.extend_from_slice(&capabilities.to_be_bytes());
    for text in [client_name, client_version] {
        let end = text.char_indices().nth(MAX_TEXT_CHARACTERS).map_or(text.len(), |(at, _)| at);
        // 64 characters of at most four bytes: the length has two bytes.
        out.extend_from_slice(&u16::try_from(end).unwrap_or(u16::MAX).to_be_bytes());
        out.extend_from_slice(&text.as_bytes()[..end]);
    }
    out
}

fn decode(value: &[u8]) -> Option<(u64, SessionClaims)> {
    let (&[format, revision], rest) = value.split_first_chunk()?;
    let (issued_at, rest) = rest.split_first_chunk()?;
    let (capabilities, rest) = rest.split_first_chunk()?;
    let (client_name, rest) = decode_text(rest)?;
    let (client_version, rest) = decode_text(rest)?;
    let revision = *STATEFUL.get(usize::from(revision))?;
    let capabilities = u16::from_be_bytes(*capabilities);
    let claims = SessionClaims { revision, capabilities, client_name, client_version };
    let is_known = format == FORMAT && rest.is_empty();
    is_known.then_some((u64::from_be_bytes(*issued_at), claims))
}

fn decode_text(value: &[u8]) -> Option<(String, &[u8])> {
    let (length, rest) = value.split_first_chunk()?;
    let (text, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    Some((String::from_utf8(text.to_vec()).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vmcp_seal::SealKey;

    use super::*;

    const START: u64 = 1_000_000_000;

    fn seal(key: u8, clock: &Clock) -> SessionSeal {
        let keys = [SealKey::from_bytes([key; 32])];
        SessionSeal::new(KeyRing::new("server", &keys, clock.clone()).unwrap(), clock.clone())
    }

    fn clock(seconds: u64) -> Clock {
        Clock::manual(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
    }

    fn alice() -> Identity {
        Identity::new("https://idp", "alice")
    }

    fn claims(name: &str) -> SessionClaims {
        SessionClaims {
            revision: STATEFUL[0],
            capabilities: 0x0102,
            client_name: name.to_owned(),
            client_version: "1.0".to_owned(),
        }
    }

    fn issue(seal: &SessionSeal, owner: &Identity) -> String {
        seal.seal(SessionId::random().unwrap(), owner, &claims("client")).unwrap()
    }

    #[test]
    fn replica_with_same_ring_opens_session() {
        let clock = clock(START);
        let id = SessionId::random().unwrap();
        let text = seal(1, &clock).seal(id, &alice(), &claims("client")).unwrap();
        let opened = seal(1, &clock).open(text.as_bytes(), &alice()).unwrap();
        let expected = OpenedSessionId { id, issued_at: START * 1000, claims: claims("client") };
        assert_eq!(opened, expected);
        assert_eq!(seal(2, &clock).open(text.as_bytes(), &alice()), None);
    }

    #[test]
    fn other_owner_opens_nothing() {
        let seal = seal(1, &clock(START));
        let text = issue(&seal, &alice());
        let similar = Identity::new("https://id", "palice");
        for owner in [Identity::new("https://idp", "bob"), similar, Identity::anonymous()] {
            assert_eq!(seal.open(text.as_bytes(), &owner), None);
        }
        let anonymous = issue(&seal, &Identity::anonymous());
        assert_eq!(seal.open(anonymous.as_bytes(), &alice()), None);
        assert!(seal.open(anonymous.as_bytes(), &Identity::anonymous()).is_some());
    }

    #[test]
    fn id_opens_for_seven_days() {
        let (clock, week) = (clock(START), SEALED_SESSION_LIFETIME.as_secs());
        let seal = seal(1, &clock);
        let text = issue(&seal, &alice());
        clock.advance(Duration::from_secs(week + LEEWAY_SECS));
        assert!(seal.open(text.as_bytes(), &alice()).is_some());
        clock.advance(Duration::from_secs(1));
        assert_eq!(seal.open(text.as_bytes(), &alice()), None);
    }

    #[test]
    fn clocks_may_differ_by_a_minute() {
        let ahead = issue(&seal(1, &clock(START + LEEWAY_SECS)), &alice());
        assert!(seal(1, &clock(START)).open(ahead.as_bytes(), &alice()).is_some());
        let future = issue(&seal(1, &clock(START + LEEWAY_SECS + 1)), &alice());
        assert_eq!(seal(1, &clock(START)).open(future.as_bytes(), &alice()), None);
    }

    #[test]
    fn longest_id_has_1024_characters() {
        let seal = seal(1, &clock(START));
        let wide =
            SessionClaims { client_version: "𝄞".repeat(500), ..claims(&"𝄞".repeat(500)) };
        let text = seal.seal(SessionId::random().unwrap(), &alice(), &wide).unwrap();
        assert!(text.len() <= MAX_LENGTH, "{}", text.len());
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
        let opened = seal.open(text.as_bytes(), &alice()).unwrap();
        assert_eq!(opened.claims.client_name, "𝄞".repeat(MAX_TEXT_CHARACTERS));
        let long = text.clone() + &"A".repeat(MAX_LENGTH);
        assert_eq!(split(long.as_bytes()), None);
    }

    #[test]
    fn issued_id_opens_to_what_was_returned() {
        let seal = seal(1, &clock(START));
        let (text, session) = seal.issue(&alice(), claims("client"), None).unwrap();
        assert_eq!(seal.open(text.as_bytes(), &alice()), Some(session));
    }

    #[test]
    fn session_begins_after_end_of_all_others() {
        let slow = seal(1, &clock(START));
        let fast = seal(1, &clock(START + LEEWAY_SECS));
        let issue = |at: &SessionSeal, ended_until| {
            at.issue(&alice(), claims("client"), ended_until).unwrap()
        };
        let ended_until = issue(&fast, None).1.issued_at;
        for replica in [&slow, &fast] {
            let (_, session) = issue(replica, Some(ended_until));
            assert_eq!(session.issued_at, ended_until + 1);
        }
        // Two replicas whose clocks differ by less than a minute open it at once.
        let slow = seal(1, &clock(START + 1));
        let (text, _) = issue(&slow, Some(ended_until));
        for replica in [&slow, &fast] {
            assert!(replica.open(text.as_bytes(), &alice()).is_some());
        }
        assert_eq!(issue(&slow, Some(5)).1.issued_at, (START + 1) * 1000);
    }

    proptest! {
        #[test]
        fn changed_ids_do_not_open(
            name: String,
            at: prop::sample::Index,
            character in "[ -~]",
        ) {
            let seal = seal(1, &clock(START));
            let id = SessionId::random().unwrap();
            let text = seal.seal(id, &alice(), &claims(&name)).unwrap();
            let mut changed = text.clone();
            let at = at.index(text.len());
            changed.replace_range(at..=at, &character);
            prop_assert_eq!(seal.open(changed.as_bytes(), &alice()).is_some(), changed == text);
            prop_assert_eq!(seal.open(&text.as_bytes()[..at], &alice()), None);
        }

        #[test]
        fn decodes_any_bytes_without_panic(value: Vec<u8>) {
            if let Some((issued_at, claims)) = decode(&value) {
                let again = decode(&encode(issued_at, &claims)).unwrap();
                prop_assert_eq!(again.0, issued_at);
            }
            _ = split(&value);
        }
    }
}
