//! Session identifiers.

use std::fmt;

/// Session identifier: 128 random bits, formatted as 32 hexadecimal digits. MCP requires visible
/// ASCII for `Mcp-Session-Id`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId([u8; 16]);

impl SessionId {
    /// Creates an identifier from the operating system's random numbers; `None` if they are
    /// unavailable.
    #[must_use]
    pub fn random() -> Option<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// Parses the format of [`fmt::Display`].
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut bytes = [0; 16];
        if text.len() != 32 {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = (digit(pair[0])? << 4) | digit(pair[1])?;
        }
        Some(Self(bytes))
    }

    /// Returns the index of the session's shard, of `count`.
    pub(crate) fn shard(self, count: usize) -> usize {
        usize::from(self.0[0]) % count
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Shows only the beginning: a session identifier grants its owner access to the session.
impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({:02x}{:02x}…)", self.0[0], self.0[1])
    }
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_own_format_only() {
        let id = SessionId::random().unwrap();
        assert_eq!(SessionId::parse(id.to_string().as_bytes()), Some(id));
        for bad in ["", "00", &"g".repeat(32), &"A".repeat(32), &"0".repeat(33)] {
            assert_eq!(SessionId::parse(bad.as_bytes()), None, "{bad}");
        }
    }
}
