//! Fields of a record, whose values are sealed for the session.

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use vmcp_seal::{KeyRing, SealPurpose};
use vmcp_session::{
    BackendEntry, EntryTag, RestoredRecord, SessionKey, SessionRecord, StorageError,
};

use crate::reply::Fields;

const TAG_LENGTH: usize = 16;

/// Kind of a value, part of what it is bound to.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Kind {
    Level = 1,
    Entry = 2,
    Subscription = 3,
}

/// Seal of one session's values.
pub(crate) struct ValueSeal<'a> {
    pub(crate) ring: &'a KeyRing,
    pub(crate) session: &'a SessionKey,
}

impl ValueSeal<'_> {
    pub(crate) fn level(&self, level: &str) -> Result<Vec<u8>, StorageError> {
        self.seal(Kind::Level, b"", level.as_bytes())
    }

    /// Seals an entry under a new tag, which precedes it.
    pub(crate) fn entry(
        &self,
        backend: &str,
        value: &[u8],
    ) -> Result<(EntryTag, Vec<u8>), StorageError> {
        let tag = EntryTag::random().ok_or(StorageError::Unavailable)?;
        Ok((tag, self.tagged_entry(backend, tag, value)?))
    }

    /// Seals an entry under its tag.
    pub(crate) fn tagged_entry(
        &self,
        backend: &str,
        tag: EntryTag,
        value: &[u8],
    ) -> Result<Vec<u8>, StorageError> {
        let sealed = self.seal(Kind::Entry, &entry_name(backend, tag), value)?;
        Ok([&tag.0[..], &sealed].concat())
    }

    pub(crate) fn open_entry(
        &self,
        backend: &str,
        stored: &[u8],
    ) -> Result<BackendEntry, StorageError> {
        let (tag, sealed) =
            stored.split_first_chunk::<TAG_LENGTH>().ok_or(StorageError::UnknownFormat)?;
        let tag = EntryTag(*tag);
        let value = self.open(Kind::Entry, &entry_name(backend, tag), sealed)?;
        Ok(BackendEntry { tag, value })
    }

    pub(crate) fn subscription(&self, backend: &str, uri: &str) -> Result<Vec<u8>, StorageError> {
        self.seal(Kind::Subscription, b"", &subscription_value(backend, uri))
    }

    /// Returns the name of a subscription's field, which does not show the URI.
    pub(crate) fn subscription_name(&self, backend: &str, uri: &str) -> String {
        let mut text = self.session.id.to_string().into_bytes();
        text.extend_from_slice(&subscription_value(backend, uri));
        BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, &text))
    }

    /// Parses the fields of a record.
    pub(crate) fn open_record(&self, fields: &Fields) -> Result<RestoredRecord, StorageError> {
        let (mut record, mut is_lost) = (SessionRecord::default(), false);
        for (name, value) in fields {
            match name.split_first_chunk::<2>() {
                None if name == b"l" => {
                    let level = self.open(Kind::Level, b"", value)?;
                    record.level = Some(text(level)?.into());
                }
                Some((b"b:", backend)) => {
                    let backend = text(backend.to_vec())?;
                    let entry = self.open_entry(&backend, value)?;
                    record.backend_sessions.push((backend.into(), entry));
                }
                Some((b"u:", _)) => {
                    let value = self.open(Kind::Subscription, b"", value)?;
                    record.subscriptions.push(parse_subscription(&value)?);
                }
                _ => is_lost |= name == b"lost",
            }
        }
        record.backend_sessions.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        record.subscriptions.sort_unstable();
        Ok(RestoredRecord { record, is_lost })
    }

    fn seal(&self, kind: Kind, name: &[u8], value: &[u8]) -> Result<Vec<u8>, StorageError> {
        let sealed = self.ring.seal(SealPurpose::SessionRecord, value, &self.bound_to(kind, name));
        sealed.map_err(|_| StorageError::Unavailable)
    }

    fn open(&self, kind: Kind, name: &[u8], sealed: &[u8]) -> Result<Vec<u8>, StorageError> {
        let opened = self.ring.open(SealPurpose::SessionRecord, sealed, &self.bound_to(kind, name));
        opened.ok_or(StorageError::UnknownFormat)
    }

    /// Returns the associated data. All but the name has a fixed length.
    fn bound_to(&self, kind: Kind, name: &[u8]) -> Vec<u8> {
        let id = self.session.id.to_string();
        [&[kind as u8], id.as_bytes(), self.session.owner.bytes(), name].concat()
    }
}

fn entry_name(backend: &str, tag: EntryTag) -> Vec<u8> {
    [&tag.0, backend.as_bytes()].concat()
}

fn subscription_value(backend: &str, uri: &str) -> Vec<u8> {
    [&(backend.len() as u64).to_be_bytes(), backend.as_bytes(), uri.as_bytes()].concat()
}

fn parse_subscription(value: &[u8]) -> Result<(Box<str>, Box<str>), StorageError> {
    let (length, rest) = value.split_first_chunk().ok_or(StorageError::UnknownFormat)?;
    let length = usize::try_from(u64::from_be_bytes(*length)).ok();
    let parts = length.and_then(|length| rest.split_at_checked(length));
    let (backend, uri) = parts.ok_or(StorageError::UnknownFormat)?;
    Ok((text(backend.to_vec())?.into(), text(uri.to_vec())?.into()))
}

fn text(bytes: Vec<u8>) -> Result<String, StorageError> {
    String::from_utf8(bytes).map_err(|_| StorageError::UnknownFormat)
}
