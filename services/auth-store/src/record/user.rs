//! Users, their browsers and their consents.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{ClientId, ProviderIssuer, ProviderName, SubjectName, Timestamp, UserId};

/// Subject of an upstream provider. Issuer and name identify it: the same name of another issuer is
/// another user, under any configured provider name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// Name of the provider in the configuration.
    pub provider: ProviderName,
    /// Issuer of the subject.
    pub issuer: ProviderIssuer,
    /// Subject identifier at that issuer.
    pub name: SubjectName,
}

/// Profile of a user as the provider reports it. `Debug` omits the personal data.
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

/// User.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Identifier in tokens.
    pub id: UserId,
    /// Profile of the last login.
    pub profile: Profile,
    /// Time of the first login.
    pub created: Timestamp,
}

/// User of a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Browser {
    /// User who logged in last.
    pub user: UserId,
    /// Consents of that user, in any browser.
    pub consents: Vec<Consent>,
}

/// Consent of a user. A later one for the same client and redirect URI replaces it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consent {
    /// Client.
    pub client: ClientId,
    /// Redirect URI; a loopback address without its port.
    pub redirect_uri: String,
    /// Scopes.
    pub scopes: Vec<String>,
    /// Time of the consent.
    pub given: Timestamp,
    /// Expiry of the consent.
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
