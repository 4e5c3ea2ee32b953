//! Users, their browsers and their consents.

use std::time::Duration;

use vmcp_auth_store::{
    Browser, ClientId, Consent, Digest, Profile, ProviderIssuer, ProviderName, StoreError, Subject,
    Timestamp, User, UserId,
};
use vmcp_redis::{Idempotency, from_redis_value};

use crate::arguments::{json, length_prefixed};
use crate::reply::{Fields, parse_name, parse_record};
use crate::store::RedisStore;

impl RedisStore {
    pub(super) async fn get_conflicting_issuers(
        &self,
        providers: &[(ProviderName, ProviderIssuer)],
    ) -> Result<Vec<(ProviderName, ProviderIssuer)>, StoreError> {
        let arguments = self.arguments().duration(self.limits().user_lifetime);
        let arguments = providers.iter().fold(arguments, |arguments, (provider, issuer)| {
            arguments.text(provider.as_str()).text(issuer.as_str())
        });
        let mut reply = self
            .step(&self.scripts().conflicting_issuers, arguments, Idempotency::Idempotent)
            .await?;
        let mut others = Vec::new();
        while let Some(provider) = reply.get::<String>()? {
            let issuer = reply.require::<String>()?;
            others.push((parse_name(&provider, "provider")?, parse_name(&issuer, "provider")?));
        }
        Ok(others)
    }

    pub(super) async fn get_or_create_user(
        &self,
        subject: &Subject,
        proposed: &UserId,
        profile: &Profile,
    ) -> Result<UserId, StoreError> {
        let limits = self.limits();
        let arguments = self
            .arguments()
            // Three parts, so that keys never equal those of versions without issuers, which have
            // two.
            .text(length_prefixed(&["issuer", subject.issuer.as_str(), subject.name.as_str()]))
            .text(proposed.as_str())
            .record(profile)?
            .time(self.now() + limits.user_lifetime)
            .number(limits.users as u64)
            .text(subject.provider.as_str())
            .text(subject.issuer.as_str())
            .text(length_prefixed(&[subject.provider.as_str(), legacy_subject_name(subject)]));
        let mut reply =
            self.step(&self.scripts().upsert_user, arguments, Idempotency::Idempotent).await?;
        match &*reply.status()? {
            "ok" => parse_name(&reply.require::<String>()?, "user"),
            _ => Err(StoreError::Full { what: "users" }),
        }
    }

    pub(super) async fn get_account(&self, id: &UserId) -> Result<Option<User>, StoreError> {
        let now = self.now();
        let fields = self.fields(&self.key("user:", id.as_str()), &[]).await?;
        let Some(fields) = Fields::all(fields, now)? else { return Ok(None) };
        Ok(Some(User {
            id: id.clone(),
            profile: fields.record("p", "user")?,
            created: Timestamp::from_millis(fields.number("c")?),
        }))
    }

    pub(super) async fn set_browser(
        &self,
        browser: &Digest,
        user: &UserId,
        consent: Option<&Consent>,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        let limits = self.limits();
        let (field, record) = match consent {
            Some(consent) => {
                let (given, expires) = (consent.given.millis(), consent.expires.millis());
                let field = length_prefixed(&[consent.client.as_str()]) + &consent.redirect_uri;
                (field, format!("{given} {expires} {}", json(consent)?))
            }
            None => (String::new(), String::new()),
        };
        let arguments = self
            .arguments()
            .text(browser.to_text())
            .text(user.as_str())
            .time(self.now() + ttl)
            .number(limits.browsers as u64)
            .text(field)
            .text(record)
            .number(limits.consents_per_user as u64);
        let mut reply =
            self.step(&self.scripts().put_browser, arguments, Idempotency::Idempotent).await?;
        match &*reply.status()? {
            "ok" => Ok(()),
            _ => Err(StoreError::Full { what: "browsers" }),
        }
    }

    pub(super) async fn get_browser(&self, cookie: &Digest) -> Result<Option<Browser>, StoreError> {
        let arguments = self.arguments().text(cookie.to_text());
        let mut reply =
            self.step(&self.scripts().browser, arguments, Idempotency::Idempotent).await?;
        let Some(user) = reply.get::<String>()? else { return Ok(None) };
        // An unreadable consent is requested again.
        let consents = reply.rest().filter_map(|consent| {
            let text: String = from_redis_value(consent).ok()?;
            parse_record(&text, "consent").ok()
        });
        let consents = consents.collect();
        Ok(Some(Browser { user: parse_name(&user, "browser")?, consents }))
    }

    pub(super) async fn delete_browser(&self, cookie: &Digest) -> Result<(), StoreError> {
        let arguments = self.arguments().text(cookie.to_text());
        self.step(&self.scripts().remove_browser, arguments, Idempotency::Idempotent)
            .await
            .map(|_| ())
    }

    pub(super) async fn delete_consents(
        &self,
        user: &UserId,
        client: &ClientId,
    ) -> Result<(), StoreError> {
        let arguments =
            self.arguments().text(user.as_str()).text(length_prefixed(&[client.as_str()]));
        self.step(&self.scripts().remove_consents, arguments, Idempotency::Idempotent)
            .await
            .map(|_| ())
    }
}

/// Returns the subject as versions without issuers stored it: without the sign that distinguishes
/// numbers from strings.
fn legacy_subject_name(subject: &Subject) -> &str {
    let name = subject.name.as_str();
    name.strip_prefix('#').unwrap_or(name)
}
