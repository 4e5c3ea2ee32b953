//! A code becomes tokens, old tokens become new ones, and some are given back.

use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};
use vmcp_jwt::VerifyError;

use super::credentials::is_unknown_client;
use super::ground::{Ground, OpenId, PartyRef};
use super::{Inner, Revocation};
use crate::answer::Granted;
use crate::client::is_printable;
use crate::discovery::Metadata;
use crate::mapping::subject;
use crate::user::User;
use crate::{
    Answer, AnswerFault, Fault, IdentityFault, Leg, Login, Place, RefreshFault, Tokens, form,
    id_token,
};

/// How long a login may take at the provider.
const LEG: Duration = Duration::from_secs(15 * 60);

/// The longest code, in bytes.
const MAX_CODE: usize = 8 * 1024;

/// The errors of a refresh that only a new login mends: RFC 6749 section 5.2, GitHub's, and those of OpenID
/// Connect Core 1.0 section 3.1.2.6 that some providers give here.
const DEAD: [&str; 5] = [
    "invalid_grant",
    "bad_refresh_token",
    "interaction_required",
    "login_required",
    "consent_required",
];

impl Inner {
    pub(super) async fn finish(&self, leg: &Leg, answer: Answer) -> Result<Login, Fault> {
        let Answer { outcome, iss } = answer;
        if leg.issuer_id != self.issuer_id {
            return Err(AnswerFault::OtherProvider.into());
        }
        leg.expects(iss.as_deref())?;
        let code = outcome.map_err(Fault::Declined)?;
        // A clock that went back makes no login too old.
        if self.clock.now().duration_since(leg.begun).is_ok_and(|age| age >= LEG) {
            return Err(AnswerFault::TooLate.into());
        }
        let code = code.expose_secret();
        if code.len() > MAX_CODE || !is_printable(code) {
            return Err(AnswerFault::NoCode.into());
        }
        let ground = self.speaks.ground().await?;
        let redirect_uri = self.redirect_uri.uri().to_string();
        let pairs = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect_uri),
            ("code_verifier", leg.verifier.expose_secret()),
        ];
        let granted = self.ask_for_tokens(&ground, &leg.client_id, &pairs).await?;
        let user = self.identify(&ground, leg, &granted).await?;
        let Granted { access, refresh, id, expires_at, scopes } = granted;
        let tokens = Tokens {
            access,
            refresh,
            // Nobody verified one that came from a provider which is not known to speak OpenID Connect.
            id: id.filter(|_| matches!(ground, Ground::Oidc(..))),
            expires_at,
            scopes: scopes.unwrap_or_else(|| leg.scopes.clone()),
            issuer: self.issuer_id.clone(),
            subject: user.subject.clone(),
            client_id: leg.client_id.clone(),
        };
        let User { subject, name, email, email_verified, authenticated } = user;
        let synthesized = self.synthesizes();
        Ok(Login { subject, name, email, email_verified, authenticated, synthesized, tokens })
    }

    pub(super) async fn refresh(&self, old: &Tokens) -> Result<Tokens, RefreshFault> {
        // Another provider must not get it, though it has the same name by now.
        let refresh = old.refresh.as_ref().filter(|_| old.issuer == self.issuer_id);
        let Some(refresh) = refresh else { return Err(RefreshFault::Dead) };
        let ground = self.speaks.ground().await.map_err(RefreshFault::Temporary)?;
        let pairs = [("grant_type", "refresh_token"), ("refresh_token", refresh.expose_secret())];
        let granted = self.ask_for_tokens(&ground, &old.client_id, &pairs).await;
        let granted = granted.map_err(|fault| refresh_fault(ground.party(), fault))?;
        let id = match (&ground, &granted.id) {
            (Ground::Oidc(oidc, metadata), Some(id)) => {
                self.same_user(oidc, metadata, id, &granted.access, old).await?
            }
            _ => None,
        };
        let Granted { access, refresh, id: _, expires_at, scopes } = granted;
        Ok(Tokens {
            access,
            refresh: refresh.or_else(|| old.refresh.clone()),
            id: id.or_else(|| old.id.clone()),
            expires_at,
            scopes: scopes.unwrap_or_else(|| old.scopes.clone()),
            issuer: old.issuer.clone(),
            subject: old.subject.clone(),
            client_id: old.client_id.clone(),
        })
    }

    /// The new id token, if it can be verified and is the same user's (OpenID Connect Core 1.0 section 12.2).
    /// While the keys cannot be had it is not kept, but the rotated refresh token must not be lost with it.
    async fn same_user(
        &self,
        oidc: &OpenId,
        metadata: &Metadata,
        id: &SecretString,
        access: &SecretString,
        old: &Tokens,
    ) -> Result<Option<SecretString>, RefreshFault> {
        let before = old.id.as_ref().and_then(id_token::read);
        let verified = self.verify(oidc, metadata, id, access, &old.client_id).await;
        let (is_same, kept) = match verified {
            Ok(claims) => (is_same(oidc, claims.object(), before.as_ref(), old), Some(id.clone())),
            // It came from the provider over TLS: enough to notice another user (section 3.1.3.7, item 6).
            Err(fault @ Fault::Identity(IdentityFault::Token(VerifyError::Keys(_)))) => {
                let claims = id_token::read(id).ok_or(RefreshFault::Temporary(fault))?;
                (is_same(oidc, &claims, before.as_ref(), old), None)
            }
            Err(fault) => return Err(RefreshFault::Temporary(fault)),
        };
        if is_same { Ok(kept) } else { Err(RefreshFault::SubjectChanged) }
    }

    pub(super) async fn revoke(&self, tokens: &Tokens) -> Result<Revocation, Fault> {
        if tokens.issuer != self.issuer_id {
            return Ok(Revocation::NotOffered);
        }
        let ground = self.speaks.ground().await?;
        let Some((endpoint, web)) = ground.revocation() else {
            return Ok(Revocation::NotOffered);
        };
        let id = &tokens.client_id;
        let (credentials, _) = self.credentials(&ground, id, Place::Revocation).await?;
        // The refresh token first: with it the grant ends, also where the access token can't be revoked.
        let both =
            [("refresh_token", tokens.refresh.as_ref()), ("access_token", Some(&tokens.access))];
        for (hint, token) in both {
            let Some(token) = token else { continue };
            let pairs = [("token", token.expose_secret()), ("token_type_hint", hint)];
            let request = form::request(endpoint, &credentials, &pairs)?;
            let reply = web.ask(Place::Revocation, request).await?;
            if reply.status.is_success() {
                continue;
            }
            match reply.refusal(Place::Revocation) {
                Fault::Refused { code, .. } if &*code == "unsupported_token_type" => {}
                fault => return Err(fault),
            }
        }
        Ok(Revocation::Done)
    }
}

/// What a refusal means for the tokens. A registration that is no more takes its grants along.
fn refresh_fault(party: PartyRef<'_>, fault: Fault) -> RefreshFault {
    let registered = matches!(party, PartyRef::Registered(_));
    match &fault {
        Fault::Refused { place: Place::Token, code } if DEAD.contains(&&**code) => {
            RefreshFault::Dead
        }
        Fault::Answer(AnswerFault::OtherClient) => RefreshFault::Dead,
        _ if registered && is_unknown_client(&fault) => RefreshFault::Dead,
        _ => RefreshFault::Temporary(fault),
    }
}

/// Whether new claims are of the user whose tokens these are: that of the id token before or, where none is
/// left to compare with, the one who logged in.
fn is_same(
    oidc: &OpenId,
    claims: &Map<String, Value>,
    before: Option<&Map<String, Value>>,
    tokens: &Tokens,
) -> bool {
    let subject = claims.get("sub").and_then(subject);
    let Some(before) = before else {
        let renamed = oidc.user_info.as_ref().is_some_and(|info| info.fields.renames_subject());
        return renamed || subject.as_deref() == Some(&*tokens.subject);
    };
    let other_nonce = claims.contains_key("nonce") && claims.get("nonce") != before.get("nonce");
    subject.is_some() && claims.get("sub") == before.get("sub") && !other_nonce
}
