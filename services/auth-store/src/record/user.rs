//! People, their browsers, and what they consented to.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ClientId, ProviderIssuer, ProviderName, SubjectName, Timestamp, UserId};

/// How an upstream provider names a person. Issuer and name are what counts: another issuer's
/// person of the same name is another person, under whichever name that issuer is configured.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The provider, as the configuration names it.
    pub provider: ProviderName,
    /// The provider itself.
    pub issuer: ProviderIssuer,
    /// Its name for them.
    pub name: SubjectName,
}

/// What a provider says of a person. Not in its `Debug` form: it is theirs.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// The claim `name`.
    pub name: Option<String>,
    /// The claim `email`.
    pub email: Option<String>,
    /// The claim `email_verified`.
    #[serde(default)]
    pub email_verified: Option<bool>,
}

/// A person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// How tokens name them.
    pub id: UserId,
    /// What it last said of them.
    pub profile: Profile,
    /// When they first came.
    pub created: Timestamp,
}

/// What is known of who uses a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Browser {
    /// Who logged in there last.
    pub user: UserId,
    /// What they consented to before, in any browser.
    pub consents: Vec<Consent>,
}

/// What a person consented to. A later one for the same client and redirect URI takes its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consent {
    /// For whom.
    pub client: ClientId,
    /// Where answers go; a loopback address without its port.
    pub redirect_uri: String,
    /// To what.
    pub scopes: Vec<String>,
    /// When.
    pub given: Timestamp,
    /// Until when it is remembered.
    pub expires: Timestamp,
}

// === impl Profile ===

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, email, email_verified } = self;
        f.debug_struct("Profile")
            .field("name", &name.is_some())
            .field("email", &email.is_some())
            .field("email_verified", email_verified)
            .finish()
    }
}
