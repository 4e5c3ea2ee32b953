//! Arguments of scripts.

use std::time::Duration;

use vmcp_redis::{RedisWrite, ToRedisArgs};
use vmcp_session::{OwnerDigest, SessionKey, TOMBSTONE_LIFETIME};

/// Time for which records outlive the sessions of replicas.
const GRACE: Duration = Duration::from_mins(1);

/// Arguments of a script, after those of all scripts: the replica, the time to live of records, the time in which a use counts,
/// the lifetime of tombstones, and the channel.
pub(crate) struct Arguments(Vec<Vec<u8>>);

impl Arguments {
    pub(crate) fn new(replica: &str, ttl: Duration, channel: &str) -> Self {
        Self(Vec::with_capacity(12))
            .text(replica)
            .text(millis(ttl + GRACE))
            .text(millis(ttl + ttl / 4))
            .text(TOMBSTONE_LIFETIME.as_secs().to_string())
            .text(channel)
    }

    pub(crate) fn text(mut self, text: impl AsRef<[u8]>) -> Self {
        self.0.push(text.as_ref().to_vec());
        self
    }

    pub(crate) fn number(self, number: usize) -> Self {
        self.text(number.to_string())
    }

    pub(crate) fn session(self, session: &SessionKey) -> Self {
        let SessionKey { owner, id, issued_at } = session;
        self.text(id.to_string())
            .text(owner_text(owner))
            .text(issued_at.to_string())
            .text(if owner.is_anonymous() { "1" } else { "0" })
    }
}

impl ToRedisArgs for Arguments {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        for argument in &self.0 {
            out.write_arg(argument);
        }
    }
}

/// Returns the hexadecimal digits of an owner's digest.
pub(crate) fn owner_text(owner: &OwnerDigest) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = owner.bytes().iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// Parses the digits of [`owner_text`].
pub(crate) fn parse_owner(text: &str) -> Option<OwnerDigest> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(OwnerDigest::from_bytes(bytes))
}

fn millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}
