//! How this server shows a provider which client it is.

use std::sync::atomic::Ordering;

use super::Inner;
use super::ground::{Ground, Listed, PartyRef};
use crate::answer::{self, Granted};
use crate::form::{self, Credentials};
use crate::{AnswerFault, AuthMethod, Fault, Fixed, Outage, Place};

impl Inner {
    /// How the client `id` shows that it is itself at `place`, and whether that is a guess.
    pub(super) async fn credentials(
        &self,
        ground: &Ground<'_>,
        id: &str,
        place: Place,
    ) -> Result<(Credentials, bool), Fault> {
        let other = Fault::Answer(AnswerFault::OtherClient);
        match ground.party() {
            PartyRef::Fixed(fixed) if *fixed.id == *id => self.fixed(ground, fixed, place),
            PartyRef::Fixed(_) => Err(other),
            PartyRef::Registered(registrar) => {
                let registration = registrar.named(id).await?.ok_or(other)?;
                let (id, secret) = (registration.client_id, registration.secret);
                Ok((Credentials { id, secret, method: registration.method }, false))
            }
        }
    }

    fn fixed(
        &self,
        ground: &Ground<'_>,
        fixed: &Fixed,
        place: Place,
    ) -> Result<(Credentials, bool), Fault> {
        let Fixed { id, secret } = fixed;
        // A token endpoint that doesn't keep to RFC 6749 in its answers has no habit of Basic either.
        let in_body = ground.mapping().is_some() || self.in_body.load(Ordering::Relaxed);
        let (method, guessed) = match ground.auth_methods(place) {
            Listed::Said(listed) => (form::method(secret.is_some(), listed)?, false),
            Listed::Unsaid if secret.is_none() => (AuthMethod::None, false),
            Listed::Unsaid if in_body => (AuthMethod::Post, true),
            Listed::Unsaid => (AuthMethod::Basic, true),
        };
        Ok((Credentials { id: id.clone(), secret: secret.clone(), method }, guessed))
    }

    /// Asks the token endpoint. Where it doesn't say how clients authenticate and refuses this one, it is
    /// asked again the other way: it authenticates the client before it looks at the grant (RFC 6749 section
    /// 4.1.3).
    pub(super) async fn ask_for_tokens(
        &self,
        ground: &Ground<'_>,
        client_id: &str,
        pairs: &[(&str, &str)],
    ) -> Result<Granted, Fault> {
        let (mut credentials, guessed) = self.credentials(ground, client_id, Place::Token).await?;
        let first = self.post(ground, &credentials, pairs).await;
        if let (PartyRef::Registered(registrar), Err(fault)) = (ground.party(), &first)
            && is_unknown_client(fault)
        {
            registrar.refused(client_id);
        }
        if !guessed || !first.as_ref().is_err_and(denies_client) {
            return first;
        }
        credentials.method = match credentials.method {
            AuthMethod::Post => AuthMethod::Basic,
            AuthMethod::Basic | AuthMethod::None => AuthMethod::Post,
        };
        let second = self.post(ground, &credentials, pairs).await;
        if !second.as_ref().is_err_and(denies_client) {
            self.in_body.store(credentials.method == AuthMethod::Post, Ordering::Relaxed);
        }
        second
    }

    async fn post(
        &self,
        ground: &Ground<'_>,
        credentials: &Credentials,
        pairs: &[(&str, &str)],
    ) -> Result<Granted, Fault> {
        let (endpoint, web) = ground.token()?;
        let request = form::request(endpoint, credentials, pairs)?;
        let asked_at = self.clock.now();
        let reply = web.ask(Place::Token, request).await?;
        answer::read(&reply, ground.mapping(), asked_at)
    }
}

/// Whether the provider says that it doesn't know this client. The second is GitHub's name for it.
pub(super) fn is_unknown_client(fault: &Fault) -> bool {
    const CODES: [&str; 2] = ["invalid_client", "incorrect_client_credentials"];
    matches!(fault, Fault::Refused { place: Place::Token, code } if CODES.contains(&&**code))
}

/// The same, or a bare 401.
fn denies_client(fault: &Fault) -> bool {
    is_unknown_client(fault) || *fault == Fault::at(Place::Token, Outage::Status(401))
}
