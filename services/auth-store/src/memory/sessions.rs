//! Sessions and their rows.

use std::time::Duration;

use super::state::{Live, State};
use crate::{
    LockOwner, ProviderName, Row, RowLock, Session, SessionHead, SessionId, StoreError, Timestamp,
    UserId,
};

impl State {
    pub(super) fn put_row(
        &mut self,
        head: &SessionHead,
        (provider, row): (&ProviderName, &Row),
        (now, ttl): (Timestamp, Duration),
    ) -> Result<u64, StoreError> {
        if !self.sessions.keep_until(&head.id, now + ttl) {
            self.open(head, now, now + ttl)?;
        }
        self.bind(provider, &row.issuer, now)?;
        let (full, most) = (self.sessions.full(), self.limits.rows);
        let live = self.sessions.get_mut(&head.id).ok_or(full)?;
        if live.rows.len() >= most && !live.rows.contains_key(provider) {
            return Err(StoreError::Full { what: "upstreams of this session" });
        }
        Ok(live.write(provider, row))
    }

    fn open(
        &mut self,
        head: &SessionHead,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        let sessions = self.sessions_of.get(&head.user).map_or(&[][..], Vec::as_slice);
        if sessions.len() >= self.limits.sessions_per_user {
            let first = sessions.iter().min_by_key(|id| self.sessions.expires(id)).copied();
            first.and_then(|first| self.end(first, None, now));
        }
        let live = Live {
            head: head.clone(),
            grant: None,
            created: now,
            version: 0,
            rows: std::collections::HashMap::new(),
        };
        self.sessions.insert(head.id, live, until)?;
        self.sessions_of.entry(head.user.clone()).or_default().push(head.id);
        Ok(())
    }

    pub(super) fn replace_row(
        &mut self,
        session: &SessionId,
        (provider, row): (&ProviderName, &Row),
        if_version: u64,
    ) -> Option<u64> {
        let live = self.sessions.get_mut(session)?;
        live.rows.get(provider).filter(|there| there.version == if_version)?;
        Some(live.write(provider, row))
    }

    pub(super) fn drop_row(
        &mut self,
        session: &SessionId,
        provider: &ProviderName,
        if_version: Option<u64>,
    ) -> bool {
        let Some(live) = self.sessions.get_mut(session) else { return false };
        let Some(row) = live.rows.get(provider) else { return false };
        let meant = if_version.is_none_or(|version| version == row.version);
        meant && live.rows.remove(provider).is_some()
    }

    pub(super) fn lock_row(
        &mut self,
        session: &SessionId,
        (provider, owner): (&ProviderName, &LockOwner),
        until: Timestamp,
    ) -> Result<RowLock, StoreError> {
        let Some(live) = self.sessions.get(session) else { return Ok(RowLock::Acquired(None)) };
        let lock = (*session, provider.clone());
        if self.locks.get(&lock).is_some_and(|holder| holder != owner) {
            return Ok(RowLock::Held);
        }
        self.locks.insert(lock, *owner, until)?;
        Ok(RowLock::Acquired(live.rows.get(provider).cloned()))
    }

    pub(super) fn unlock_row(
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
        let (live, expires) = (self.sessions.get(id)?, self.sessions.expires(id)?);
        let rows = live.rows.iter().map(|(provider, row)| (provider.clone(), row.clone()));
        Some(Session {
            head: live.head.clone(),
            grant: live.grant,
            created: live.created,
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

    pub(super) fn last_row(
        &self,
        user: &UserId,
        provider: &ProviderName,
    ) -> Option<(SessionId, Row)> {
        let ids = self.sessions_of.get(user)?;
        let row = |id: &SessionId| Some((*id, self.sessions.get(id)?.rows.get(provider)?.clone()));
        ids.iter().filter_map(row).max_by_key(|(_, row)| row.written)
    }
}

impl Live {
    fn write(&mut self, provider: &ProviderName, row: &Row) -> u64 {
        self.version += 1;
        let row = Row { version: self.version, ..row.clone() };
        self.rows.insert(provider.clone(), row);
        self.version
    }
}
