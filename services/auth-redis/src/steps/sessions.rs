//! Sessions and their upstream tokens.

use std::collections::BTreeMap;
use std::time::Duration;

use vmcp_auth_store::{
    LockOwner, ProviderName, Revocation, Session, SessionHead, SessionId, StoreError, Timestamp,
    UpstreamTokenLock, UpstreamTokenRecord, UserId,
};
use vmcp_redis::Idempotency;

use crate::reply::{Fields, parse_name, parse_upstream_token_lenient};
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn set_upstream_token(
        &self,
        head: &SessionHead,
        provider: &ProviderName,
        row: &UpstreamTokenRecord,
        ttl: Duration,
    ) -> Result<u64, StoreError> {
        let limits = self.limits();
        let arguments = self
            .arguments()
            .text(head.id.to_text())
            .text(head.user.as_str())
            .record(head)?
            .text(provider.as_str())
            .time(row.written)
            .record(row)?
            .time(self.now() + ttl)
            .number(limits.sessions as u64)
            .number(limits.sessions_per_user as u64)
            .number(limits.upstream_tokens_per_session as u64)
            .text(row.issuer.as_str())
            .duration(limits.user_lifetime);
        let mut reply = self
            .step(&self.scripts().put_upstream_token, arguments, Idempotency::Idempotent)
            .await?;
        match &*reply.status()? {
            "ok" => reply.require(),
            "full of" => Err(StoreError::Full { what: "upstreams of this session" }),
            _ => Err(StoreError::Full { what: "sessions" }),
        }
    }

    pub(super) async fn compare_and_set_upstream_token(
        &self,
        session: &SessionId,
        provider: &ProviderName,
        if_version: u64,
        row: &UpstreamTokenRecord,
    ) -> Result<Option<u64>, StoreError> {
        let arguments = self
            .arguments()
            .text(session.to_text())
            .text(provider.as_str())
            .number(if_version)
            .time(row.written)
            .record(row)?;
        self.step(&self.scripts().replace_upstream_token, arguments, Idempotency::NotIdempotent)
            .await?
            .get()
    }

    pub(super) async fn delete_upstream_token(
        &self,
        session: &SessionId,
        provider: &ProviderName,
        if_version: Option<u64>,
    ) -> Result<bool, StoreError> {
        let arguments = self
            .arguments()
            .text(session.to_text())
            .text(provider.as_str())
            .text(if_version.map(|version| version.to_string()).unwrap_or_default());
        let mut reply = self
            .step(&self.scripts().remove_upstream_token, arguments, Idempotency::Idempotent)
            .await?;
        reply.require()
    }

    pub(super) async fn acquire_lock(
        &self,
        session: &SessionId,
        provider: &ProviderName,
        owner: &LockOwner,
        ttl: Duration,
    ) -> Result<UpstreamTokenLock, StoreError> {
        let arguments = self
            .arguments()
            .text(session.to_text())
            .text(provider.as_str())
            .text(owner.to_text())
            .time(self.now() + ttl);
        let mut reply = self
            .step(&self.scripts().lock_upstream_token, arguments, Idempotency::Idempotent)
            .await?;
        match &*reply.status()? {
            "ok" => reply.upstream_token().map(UpstreamTokenLock::Acquired),
            _ => Ok(UpstreamTokenLock::Held),
        }
    }

    pub(super) async fn release_lock(
        &self,
        session: &SessionId,
        provider: &ProviderName,
        owner: &LockOwner,
    ) -> Result<(), StoreError> {
        let arguments =
            self.arguments().text(session.to_text()).text(provider.as_str()).text(owner.to_text());
        self.step(&self.scripts().unlock_upstream_token, arguments, Idempotency::Idempotent)
            .await
            .map(|_| ())
    }

    pub(super) async fn get_session(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        let now = self.now();
        let fields = self.fields(&self.key("session:", &id.to_text()), &[]).await?;
        Fields::all(fields, now)?.as_ref().map(read_session).transpose()
    }

    pub(super) async fn set_session_expiry(
        &self,
        id: &SessionId,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let arguments = self.arguments().text(id.to_text()).time(self.now() + ttl);
        self.step(&self.scripts().extend_session, arguments, Idempotency::Idempotent)
            .await?
            .require()
    }

    pub(super) async fn delete_session(
        &self,
        id: &SessionId,
    ) -> Result<Option<Revocation>, StoreError> {
        let arguments = self.arguments().text(id.to_text());
        self.step(&self.scripts().end_session, arguments, Idempotency::Idempotent)
            .await?
            .revocation()
    }

    pub(super) async fn get_sessions(&self, user: &UserId) -> Result<Vec<Session>, StoreError> {
        let now = self.now();
        let arguments = self.arguments().text(user.as_str());
        let reply =
            self.step(&self.scripts().sessions_of, arguments, Idempotency::Idempotent).await?;
        let mut sessions = Vec::new();
        for fields in reply.rest() {
            // An unreadable session must not hide the others.
            let session = Fields::all(fields, now)
                .and_then(|fields| fields.as_ref().map(read_session).transpose());
            match session {
                Ok(session) => sessions.extend(session),
                Err(error) => tracing::warn!(%error, "failed to read a session"),
            }
        }
        sessions.sort_by_key(|session| std::cmp::Reverse(session.created));
        Ok(sessions)
    }

    pub(super) async fn newest_upstream_token(
        &self,
        user: &UserId,
        provider: &ProviderName,
    ) -> Result<Option<(SessionId, UpstreamTokenRecord)>, StoreError> {
        let arguments = self.arguments().text(user.as_str()).text(provider.as_str());
        let mut reply = self
            .step(&self.scripts().latest_upstream_token, arguments, Idempotency::Idempotent)
            .await?;
        let Some(session) = reply.get::<String>()? else { return Ok(None) };
        let session = parse_name(&session, "session")?;
        Ok(reply.upstream_token()?.map(|row| (session, row)))
    }
}

fn read_session(fields: &Fields) -> Result<Session, StoreError> {
    let mut rows = BTreeMap::new();
    for (field, value) in fields.iter() {
        if let Some(provider) = field.strip_prefix("r:") {
            // An unreadable token counts as missing: the user links its provider again.
            let (Ok(provider), Some(row)) =
                (parse_name(provider, "row"), parse_upstream_token_lenient(value))
            else {
                continue;
            };
            rows.insert(provider, row);
        }
    }
    Ok(Session {
        head: fields.record("h", "session")?,
        grant: fields.get("g").map(|grant| parse_name(grant, "session")).transpose()?,
        created: Timestamp::from_millis(fields.number("s")?),
        expires: Timestamp::from_millis(fields.number("x")?),
        rows,
    })
}
