//! Messages between replicas.

use vmcp_session::{OwnerDigest, SessionId, SessionKey};

use crate::arguments::{owner_text, parse_owner};

/// Number of the format of messages and records.
const FORMAT: &str = "1";

/// Maximum length of a message.
const MAX_LENGTH: usize = 4096;

/// Maximum length of a replica's handle.
pub(crate) const MAX_HANDLE_LENGTH: usize = 2048;

/// Message on the channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A replica runs. It may have announced a handle.
    Beat { replica: Box<str>, handle: Option<Box<str>> },
    /// A tombstone was written with this score.
    Ended { score: u64, tombstone: Tombstone },
    /// A session changed whose client's stream `holder` has.
    Changed { holder: Box<str>, id: SessionId },
    /// A replica stored the log level of a session.
    Level { by: Box<str>, id: SessionId },
    /// The record of a session is missing, or was created again by a replica that is entering what it has.
    Lost { entering: Box<str>, id: SessionId },
    /// Another replica than `former` has the client's stream, by a step of this number.
    Moved { former: Box<str>, number: u64, id: SessionId },
}

/// Stored tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tombstone {
    /// Of one session.
    Session(SessionKey),
    /// Of all sessions of an owner that began until a time.
    AllOfOwner { owner: OwnerDigest, until: u64 },
}

impl Message {
    /// Parses a message; `None` for one of another format.
    pub(crate) fn parse(message: &[u8]) -> Option<Self> {
        let message = str::from_utf8(message).ok().filter(|text| text.len() <= MAX_LENGTH)?;
        let (kind, rest) = message.strip_prefix(FORMAT)?.strip_prefix(' ')?.split_once(' ')?;
        let id = |text: &str| SessionId::parse(text.as_bytes());
        match kind {
            "beat" => {
                let (replica, handle) = rest.split_once(' ')?;
                let handle = (!handle.is_empty()).then(|| handle.into());
                Some(Self::Beat { replica: replica.into(), handle })
            }
            "end" => {
                let (score, tombstone) = rest.split_once(' ')?;
                let tombstone = Tombstone::parse(tombstone)?;
                Some(Self::Ended { score: score.parse().ok()?, tombstone })
            }
            "change" => {
                let (holder, session) = rest.split_once(' ')?;
                Some(Self::Changed { holder: holder.into(), id: id(session)? })
            }
            "level" => {
                let (by, session) = rest.split_once(' ')?;
                Some(Self::Level { by: by.into(), id: id(session)? })
            }
            "lost" => {
                let (entering, session) = rest.split_once(' ')?;
                Some(Self::Lost { entering: entering.into(), id: id(session)? })
            }
            "move" => {
                let (former, rest) = rest.split_once(' ')?;
                let (number, session) = rest.split_once(' ')?;
                let (former, number) = (former.into(), number.parse().ok()?);
                Some(Self::Moved { former, number, id: id(session)? })
            }
            _ => None,
        }
    }

    /// Returns the text of [`Message::Beat`]. Scripts send the other messages.
    pub(crate) fn beat(replica: &str, handle: Option<&str>) -> String {
        format!("{FORMAT} beat {replica} {}", handle.unwrap_or_default())
    }
}

impl Tombstone {
    /// Parses the text of a tombstone: identifier or `*`, owner, time.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (id, rest) = text.split_once(' ')?;
        let (owner, time) = rest.split_once(' ')?;
        let (owner, time) = (parse_owner(owner)?, time.parse().ok()?);
        if id == "*" {
            return Some(Self::AllOfOwner { owner, until: time });
        }
        let id = SessionId::parse(id.as_bytes())?;
        Some(Self::Session(SessionKey { owner, id, issued_at: time }))
    }

    /// Returns the latest time of `initialize` of what it ends, in milliseconds since 1970.
    pub(crate) fn time(&self) -> u64 {
        match self {
            Self::Session(session) => session.issued_at,
            Self::AllOfOwner { until, .. } => *until,
        }
    }

    /// Returns the arguments of the script that writes it again.
    pub(crate) fn arguments(&self) -> [String; 4] {
        let (id, owner, time) = match self {
            Self::Session(SessionKey { owner, id, issued_at }) => {
                (id.to_string(), owner, issued_at)
            }
            Self::AllOfOwner { owner, until } => ("*".to_owned(), owner, until),
        };
        let is_anonymous = if owner.is_anonymous() { "1" } else { "0" };
        [id, owner_text(owner), time.to_string(), is_anonymous.to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use vmcp_core::Identity;

    use super::*;

    #[test]
    fn parses_messages_of_own_format_only() {
        let owner = OwnerDigest::of(&Identity::new("https://idp", "alice"));
        let id = SessionId::random().unwrap();
        let session = Tombstone::Session(SessionKey { owner, id, issued_at: 7 });
        for tombstone in [session, Tombstone::AllOfOwner { owner, until: 7 }] {
            let text = tombstone.arguments()[..3].join(" ");
            let message = Message::Ended { score: 5, tombstone };
            assert_eq!(Message::parse(format!("1 end 5 {text}").as_bytes()), Some(message));
            for wrong in [
                format!("2 end 5 {text}"),
                format!("1 end x {text}"),
                format!("1 end 5 {text}x"),
                format!("1 end 5 é{text}"),
            ] {
                assert_eq!(Message::parse(wrong.as_bytes()), None, "{wrong}");
            }
        }
        for (handle, parsed) in [(None, None), (Some("a b"), Some("a b".into()))] {
            let message = Message::Beat { replica: "r".into(), handle: parsed };
            assert_eq!(Message::parse(Message::beat("r", handle).as_bytes()), Some(message));
        }
        let level = Message::Level { by: "r".into(), id };
        assert_eq!(Message::parse(format!("1 level r {id}").as_bytes()), Some(level));
        let lost = Message::Lost { entering: "-".into(), id };
        assert_eq!(Message::parse(format!("1 lost - {id}").as_bytes()), Some(lost));
        let moved = Message::Moved { former: "r".into(), number: 3, id };
        assert_eq!(Message::parse(format!("1 move r 3 {id}").as_bytes()), Some(moved));
        let long = Message::beat("r", Some(&"x".repeat(MAX_LENGTH)));
        for wrong in ["", "1", "1 ", "1 end", "1 other r x", "1 change r x", &long, "10 beat r "] {
            assert_eq!(Message::parse(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(Message::parse(&[0xff]), None);
    }
}
