//! Storage of a provider's tokens for a session.

use secrecy::ExposeSecret;
use vmcp_auth_store::{
    Login, LoginPurpose, SessionHead, SessionId, Timestamp, UpstreamTokenRecord, UserId,
};
use vmcp_upstream::{Plaintext, Tokens};

use crate::error::{Code, Fault};
use crate::event::{Event, Happened};
use crate::flow::STEP;
use crate::server::{Inner, Leg};

impl Inner {
    /// Returns `true` if the user links a provider again with another account than before, without having confirmed that.
    /// Synthetic subjects are new at each login and do not count.
    pub(super) async fn is_other_account(
        &self,
        login: &Login,
        leg: &Leg,
        came: &vmcp_upstream::Login,
    ) -> Result<bool, Fault> {
        if login.aim != LoginPurpose::Relink || came.is_synthetic {
            return Ok(false);
        }
        let session = self.store.session(&login.session).await?;
        let linked = session.and_then(|mut session| session.rows.remove(&leg.name));
        let linked = linked.and_then(|row| self.open_row(login.session, leg, &row).ok());
        Ok(linked.is_some_and(|linked| linked.subject != came.tokens.subject))
    }

    /// Stores the tokens of a provider. Tokens of an unfinished login expire.
    pub(super) async fn link(&self, login: &Login, leg: &Leg, tokens: Tokens) -> Result<(), Fault> {
        let user = login.user.clone().ok_or(Fault::server())?;
        let tokens = self.carry(&user, leg, tokens).await?;
        let row = self.seal_row(login.session, leg, &tokens)?;
        let head = match &login.aim {
            LoginPurpose::Authorize(request) => {
                SessionHead { id: login.session, user, client: request.client.clone() }
            }
            // A session that ended in the meantime is not created again.
            LoginPurpose::Relink | LoginPurpose::LinkOther => {
                let session = self.store.session(&login.session).await?;
                let words = "the session ended meanwhile";
                session.ok_or(Fault::new(Code::AccessDenied, words))?.head
            }
        };
        self.store.put_upstream_token(&head, &leg.name, &row, STEP).await?;
        let what = Happened::UpstreamLinked { provider: leg.name.as_str(), scopes: &row.scopes };
        self.tell(Event::of_login(login, what).of_client(&head.client));
        self.rows.forget(login.session, &leg.name);
        Ok(())
    }

    /// Adds the refresh token of an earlier login: some providers issue one at the first login only.
    async fn carry(&self, user: &UserId, leg: &Leg, tokens: Tokens) -> Result<Tokens, Fault> {
        if tokens.refresh.is_some() || tokens.expires_at.is_none() || user.is_synthetic() {
            return Ok(tokens);
        }
        let Some((session, row)) = self.store.latest_upstream_token(user, &leg.name).await? else {
            return Ok(tokens);
        };
        let Ok(before) = self.open_row(session, leg, &row) else { return Ok(tokens) };
        let same = before.subject == tokens.subject && before.client_id == tokens.client_id;
        Ok(if same { Tokens { refresh: before.refresh, ..tokens } } else { tokens })
    }

    /// Encrypts tokens into a row.
    pub(crate) fn seal_row(
        &self,
        session: SessionId,
        leg: &Leg,
        tokens: &Tokens,
    ) -> Result<UpstreamTokenRecord, Fault> {
        let text = serde_json::to_vec(&Plaintext(tokens)).map_err(|_| Fault::server())?;
        let text = secrecy::SecretSlice::from(text);
        Ok(UpstreamTokenRecord {
            version: 0,
            issuer: leg.issuer.clone(),
            sealed: self.seal("row", session, leg, text.expose_secret())?,
            expires: tokens.expires_at.map(Timestamp::from),
            scopes: tokens.scopes.iter().map(str::to_owned).collect(),
            written: self.now(),
        })
    }

    /// Decrypts the tokens of a row.
    pub(crate) fn open_row(
        &self,
        session: SessionId,
        leg: &Leg,
        row: &UpstreamTokenRecord,
    ) -> Result<Tokens, Fault> {
        if row.issuer != leg.issuer {
            tracing::info!(provider = %leg.name, "upstream tokens of another issuer are not used");
            return Err(Fault::server());
        }
        let text = self.open("row", session, leg, &row.sealed)?;
        let tokens: Plaintext<Tokens> =
            serde_json::from_slice(text.expose_secret()).map_err(|_| Fault::server())?;
        Ok(tokens.0)
    }
}
