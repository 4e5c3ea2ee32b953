//! Replies of scripts.

use std::collections::HashMap;
use std::str::FromStr;
use std::vec;

use serde::de::DeserializeOwned;
use vmcp_auth_store::{Revocation, StoreError, Timestamp, UpstreamTokenRecord};
use vmcp_redis::{FromRedisValue, Value, from_redis_value};

/// Elements of a reply, in order.
pub(crate) struct Reply(vec::IntoIter<Value>);

/// Fields of a record.
pub(crate) struct Fields(HashMap<String, String>);

const UNEXPECTED_REPLY: StoreError = StoreError::Corrupt { what: "reply" };

impl Reply {
    pub(crate) fn new(value: Value) -> Result<Self, StoreError> {
        match value {
            Value::Array(parts) => Ok(Self(parts.into_iter())),
            _ => Err(UNEXPECTED_REPLY),
        }
    }

    /// Returns the next element, or `None` for nil.
    pub(crate) fn get<T: FromRedisValue>(&mut self) -> Result<Option<T>, StoreError> {
        let Some(part) = self.0.next() else { return Ok(None) };
        from_redis_value(part).map_err(|_| UNEXPECTED_REPLY)
    }

    /// Returns the next element, which must not be nil.
    pub(crate) fn require<T: FromRedisValue>(&mut self) -> Result<T, StoreError> {
        self.get()?.ok_or(UNEXPECTED_REPLY)
    }

    /// Returns the next element: the status of the step.
    pub(crate) fn status(&mut self) -> Result<String, StoreError> {
        self.require()
    }

    /// Returns the next element as a record, or `None` for nil.
    pub(crate) fn record<T: DeserializeOwned>(
        &mut self,
        what: &'static str,
    ) -> Result<Option<T>, StoreError> {
        self.get::<String>()?.map(|text| parse_record(&text, what)).transpose()
    }

    pub(crate) fn revocation(&mut self) -> Result<Option<Revocation>, StoreError> {
        self.get::<String>()?.map(|text| parse_revocation(&text)).transpose()
    }

    pub(crate) fn upstream_token(&mut self) -> Result<Option<UpstreamTokenRecord>, StoreError> {
        Ok(self.get::<String>()?.and_then(|text| parse_upstream_token_lenient(&text)))
    }

    /// Returns the remaining elements.
    pub(crate) fn rest(self) -> vec::IntoIter<Value> {
        self.0
    }
}

impl Fields {
    /// Parses all fields of a record; `None` if it is missing or expired.
    pub(crate) fn all(value: Value, now: Timestamp) -> Result<Option<Self>, StoreError> {
        let fields = Self(from_redis_value(value).map_err(|_| UNEXPECTED_REPLY)?);
        if fields.0.is_empty() {
            return Ok(None);
        }
        let expires = fields.number("x").map(Timestamp::from_millis)?;
        Ok((expires > now).then_some(fields))
    }

    pub(crate) fn get(&self, field: &str) -> Option<&str> {
        self.0.get(field).map(String::as_str)
    }

    pub(crate) fn number(&self, field: &str) -> Result<u64, StoreError> {
        self.get(field).and_then(|text| text.parse().ok()).ok_or(UNEXPECTED_REPLY)
    }

    pub(crate) fn record<T: DeserializeOwned>(
        &self,
        field: &str,
        what: &'static str,
    ) -> Result<T, StoreError> {
        parse_record(self.get(field).ok_or(StoreError::Corrupt { what })?, what)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(field, value)| (field.as_str(), value.as_str()))
    }
}

/// Parses a stored record.
pub(crate) fn parse_record<T: DeserializeOwned>(
    text: &str,
    what: &'static str,
) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|_| StoreError::Corrupt { what })
}

/// Parses a stored identifier.
pub(crate) fn parse_name<T: FromStr>(text: &str, what: &'static str) -> Result<T, StoreError> {
    text.parse().map_err(|_| StoreError::Corrupt { what })
}

/// Parses an upstream token; `None` if it is unreadable, for example written by a version without
/// issuers.
pub(crate) fn parse_upstream_token_lenient(text: &str) -> Option<UpstreamTokenRecord> {
    let read = parse_upstream_token(text);
    read.inspect_err(|error| tracing::warn!(%error, "failed to read upstream tokens; ignored")).ok()
}

/// Parses an upstream token: its version, the time of writing, and the record.
fn parse_upstream_token(text: &str) -> Result<UpstreamTokenRecord, StoreError> {
    let corrupt = StoreError::Corrupt { what: "row" };
    let mut parts = text.splitn(3, ' ');
    let version = parts.next().and_then(|version| version.parse().ok()).ok_or(corrupt)?;
    let record: UpstreamTokenRecord = parse_record(parts.nth(1).ok_or(corrupt)?, "row")?;
    Ok(UpstreamTokenRecord { version, ..record })
}

/// Parses a revocation: session, grant or `-`, time.
pub(crate) fn parse_revocation(text: &str) -> Result<Revocation, StoreError> {
    let corrupt = StoreError::Corrupt { what: "revocation" };
    let mut parts = text.split(' ');
    let (Some(session), Some(grant), Some(at)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(corrupt);
    };
    let grant = (grant != "-").then(|| parse_name(grant, "revocation")).transpose()?;
    let at = Timestamp::from_millis(at.parse().map_err(|_| corrupt)?);
    Ok(Revocation { grant, session: parse_name(session, "revocation")?, at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_malformed_records() {
        for text in ["", " ", "1", "1 2", "1 2 {", "x 2 {}", "1 2 3 4"] {
            assert_eq!(
                parse_upstream_token(text),
                Err(StoreError::Corrupt { what: "row" }),
                "{text:?}"
            );
        }
        for text in ["", "a b c", "AAAAAAAAAAAAAAAAAAAAAA - x", "AAAAAAAAAAAAAAAAAAAAAA"] {
            let corrupt = Err(StoreError::Corrupt { what: "revocation" });
            assert_eq!(parse_revocation(text), corrupt, "{text:?}");
        }
        assert!(parse_revocation("AAAAAAAAAAAAAAAAAAAAAA - 5").is_ok());
        assert!(Reply::new(Value::Nil).is_err());
        assert!(Fields::all(Value::Int(1), Timestamp::default()).is_err());
    }
}
