//! Storage of a provider's tokens for a session.

use std::sync::Arc;

use vmcp_auth_store::{Login, LoginPurpose, SessionHead, Store, UserId};
use vmcp_upstream::Tokens;

use crate::error::{ErrorCode, OAuthError};
use crate::event::{Event, EventKind};
use crate::event_reporter::RequestEvents;
use crate::login::LOGIN_STEP_TIMEOUT;
use crate::upstream_cipher::UpstreamCipher;
use crate::upstream_provider::UpstreamProvider;
use crate::upstream_token_cache::UpstreamTokenCache;

/// Store of the links between sessions and provider accounts.
pub(crate) struct UpstreamLinks {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) token_cache: Arc<UpstreamTokenCache>,
    pub(crate) cipher: UpstreamCipher,
}

impl UpstreamLinks {
    /// Returns `true` if the user links a provider again with another account than before, without having confirmed that.
    /// Synthetic subjects are new at each login and do not count.
    pub(super) async fn is_other_account(
        &self,
        login: &Login,
        upstream: &UpstreamProvider,
        came: &vmcp_upstream::Login,
    ) -> Result<bool, OAuthError> {
        if login.aim != LoginPurpose::Relink || came.is_synthetic {
            return Ok(false);
        }
        let session = self.store.session(&login.session).await?;
        let linked = session.and_then(|mut session| session.rows.remove(&upstream.name));
        let linked = linked
            .and_then(|record| self.cipher.decrypt_tokens(login.session, upstream, &record).ok());
        Ok(linked.is_some_and(|linked| linked.subject != came.tokens.subject))
    }

    /// Stores the tokens of a provider. Tokens of an unfinished login expire.
    pub(super) async fn store(
        &self,
        login: &Login,
        upstream: &UpstreamProvider,
        tokens: Tokens,
        events: &RequestEvents,
    ) -> Result<(), OAuthError> {
        let user = login.user.clone().ok_or(OAuthError::server_error())?;
        let tokens = self.inherit_refresh_token(&user, upstream, tokens).await?;
        let record = self.cipher.encrypt_tokens(login.session, upstream, &tokens)?;
        let head = match &login.aim {
            LoginPurpose::Authorize(request) => {
                SessionHead { id: login.session, user, client: request.client.clone() }
            }
            // A session that ended in the meantime is not created again.
            LoginPurpose::Relink | LoginPurpose::LinkOther => {
                let session = self.store.session(&login.session).await?;
                let words = "the session ended during the login; log in again";
                session.ok_or(OAuthError::new(ErrorCode::AccessDenied, words))?.head
            }
        };
        self.store.put_upstream_token(&head, &upstream.name, &record, LOGIN_STEP_TIMEOUT).await?;
        let kind =
            EventKind::UpstreamLinked { provider: upstream.name.as_str(), scopes: &record.scopes };
        events.report(Event::of_login(login, kind).with_client(&head.client));
        self.token_cache.remove(login.session, &upstream.name);
        Ok(())
    }

    /// Adds the refresh token of an earlier login: some providers issue one at the first login only.
    async fn inherit_refresh_token(
        &self,
        user: &UserId,
        upstream: &UpstreamProvider,
        tokens: Tokens,
    ) -> Result<Tokens, OAuthError> {
        if tokens.refresh.is_some() || tokens.expires_at.is_none() || user.is_synthetic() {
            return Ok(tokens);
        }
        let Some((session, record)) =
            self.store.latest_upstream_token(user, &upstream.name).await?
        else {
            return Ok(tokens);
        };
        let Ok(before) = self.cipher.decrypt_tokens(session, upstream, &record) else {
            return Ok(tokens);
        };
        let same = before.subject == tokens.subject && before.client_id == tokens.client_id;
        Ok(if same { Tokens { refresh: before.refresh, ..tokens } } else { tokens })
    }
}
