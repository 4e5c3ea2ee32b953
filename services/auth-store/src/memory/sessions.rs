//! Sessions and their upstream tokens.

use std::time::Duration;

use super::state::{SessionRecord, State};
use crate::{
    LockOwner, ProviderName, Session, SessionHead, SessionId, StoreError, Timestamp,
    UpstreamTokenLock, UpstreamTokenRecord, UserId,
};

impl State {
    pub(super) fn put_upstream_token(
        &mut self,
        head: &SessionHead,
        (provider, row): (&ProviderName, &UpstreamTokenRecord),
        (now, ttl): (Timestamp, Duration),
    ) -> Result<u64, StoreError> {
        if !self.sessions.extend_until(&head.id, now + ttl) {
            self.create_session(head, now, now + ttl)?;
        }
        self.bind_issuer(provider, &row.issuer, now)?;
        let (full, max_tokens) =
            (self.sessions.full_error(), self.limits.upstream_tokens_per_session);
        let record = self.sessions.get_mut(&head.id).ok_or(full)?;
        if record.rows.len() >= max_tokens && !record.rows.contains_key(provider) {
            return Err(StoreError::Full { what: "upstreams of this session" });
        }
        Ok(record.put_upstream_token(provider, row))
    }

    fn create_session(
        &mut self,
        head: &SessionHead,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        let sessions = self.sessions_of.get(&head.user).map_or(&[][..], Vec::as_slice);
        if sessions.len() >= self.limits.sessions_per_user {
            let first = sessions.iter().min_by_key(|id| self.sessions.expires(id)).copied();
            first.and_then(|first| self.revoke_session(first, None, now));
        }
        let record = SessionRecord {
            head: head.clone(),
            grant: None,
            created: now,
            version: 0,
            rows: std::collections::HashMap::new(),
        };
        self.sessions.insert(head.id, record, until)?;
        self.sessions_of.entry(head.user.clone()).or_default().push(head.id);
        Ok(())
    }

    pub(super) fn replace_upstream_token(
        &mut self,
        session: &SessionId,
        (provider, row): (&ProviderName, &UpstreamTokenRecord),
        if_version: u64,
    ) -> Option<u64> {
        let record = self.sessions.get_mut(session)?;
        record.rows.get(provider).filter(|existing| existing.version == if_version)?;
        Some(record.put_upstream_token(provider, row))
    }

    pub(super) fn remove_upstream_token(
        &mut self,
        session: &SessionId,
        provider: &ProviderName,
        if_version: Option<u64>,
    ) -> bool {
        let Some(record) = self.sessions.get_mut(session) else { return false };
        let Some(row) = record.rows.get(provider) else { return false };
        let meant = if_version.is_none_or(|version| version == row.version);
        meant && record.rows.remove(provider).is_some()
    }

    pub(super) fn lock_upstream_token(
        &mut self,
        session: &SessionId,
        (provider, owner): (&ProviderName, &LockOwner),
        until: Timestamp,
    ) -> Result<UpstreamTokenLock, StoreError> {
        let Some(record) = self.sessions.get(session) else {
            return Ok(UpstreamTokenLock::Acquired(None));
        };
        let lock = (*session, provider.clone());
        if self.locks.get(&lock).is_some_and(|holder| holder != owner) {
            return Ok(UpstreamTokenLock::Held);
        }
        self.locks.insert(lock, *owner, until)?;
        Ok(UpstreamTokenLock::Acquired(record.rows.get(provider).cloned()))
    }

    pub(super) fn unlock_upstream_token(
        &mut self,
        session: &SessionId,
        provider: &ProviderName,
        owner: &LockOwner,
    ) {
        let lock = (*session, provider.clone());
        if self.locks.get(&lock) == Some(owner) {
            self.locks.remove(&lock);
        }
    }

    pub(super) fn session(&self, id: &SessionId) -> Option<Session> {
        let (record, expires) = (self.sessions.get(id)?, self.sessions.expires(id)?);
        let rows = record.rows.iter().map(|(provider, row)| (provider.clone(), row.clone()));
        Some(Session {
            head: record.head.clone(),
            grant: record.grant,
            created: record.created,
            expires,
            rows: rows.collect(),
        })
    }

    pub(super) fn sessions_of(&self, user: &UserId) -> Vec<Session> {
        let ids = self.sessions_of.get(user).map_or(&[][..], Vec::as_slice);
        let mut sessions: Vec<_> = ids.iter().filter_map(|id| self.session(id)).collect();
        sessions.sort_by_key(|session| std::cmp::Reverse(session.created));
        sessions
    }

    pub(super) fn latest_upstream_token(
        &self,
        user: &UserId,
        provider: &ProviderName,
    ) -> Option<(SessionId, UpstreamTokenRecord)> {
        let ids = self.sessions_of.get(user)?;
        let row = |id: &SessionId| Some((*id, self.sessions.get(id)?.rows.get(provider)?.clone()));
        ids.iter().filter_map(row).max_by_key(|(_, row)| row.written)
    }
}

impl SessionRecord {
    fn put_upstream_token(&mut self, provider: &ProviderName, row: &UpstreamTokenRecord) -> u64 {
        self.version += 1;
        let row = UpstreamTokenRecord { version: self.version, ..row.clone() };
        self.rows.insert(provider.clone(), row);
        self.version
    }
}
