//! Credentials for backends (`outgoingAuth`).

mod aws_sts;
mod raw;
mod token_exchange;

use std::collections::BTreeMap;

pub use self::{
    aws_sts::{AwsSts, RoleMapping, RoleMatch},
    token_exchange::{ClientSecret, TokenExchange, TokenType},
};
use crate::{
    config_value::{keyword_enum, section, section_with_default},
    string_types::{EnvName, HeaderName, ProviderName, Secret},
};

section_with_default! {
    /// Credentials for backends.
    pub struct OutgoingAuth {
        /// `inline`: the credentials in this document. `discovered`: those of each backend's resource; under Kubernetes
        /// only.
        pub source: Source;
        /// Strategy for backends without an entry in `backends`. Absent means no credentials.
        pub default: Option<Strategy>;
        /// Strategy by backend name.
        pub backends: BTreeMap<String, Strategy> = BTreeMap::new();
    }
}

keyword_enum! {
    /// Source of credentials.
    pub enum Source {
        /// From this document.
        Inline = "inline",
        /// From each backend's own resource.
        Discovered = "discovered",
    }
}

/// Credentials for one backend.
#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    /// Nothing.
    Unauthenticated,
    /// A header.
    HeaderInjection(HeaderInjection),
    /// A token from an exchange of the caller's token (RFC 8693).
    TokenExchange(TokenExchange),
    /// The caller's token of an upstream provider.
    UpstreamInject(UpstreamInject),
    /// A signature with the credentials of an AWS role.
    AwsSts(AwsSts),
}

/// A header with a value that is the same for all callers.
#[derive(Clone, Debug, PartialEq)]
pub struct HeaderInjection {
    /// Name of the header.
    pub header_name: HeaderName,
    /// Location of the value.
    pub value: HeaderValue,
}

/// Location of a header's value.
#[derive(Clone, Debug, PartialEq)]
pub enum HeaderValue {
    /// In the document.
    Literal(Secret),
    /// In an environment variable.
    Env(EnvName),
}

section! {
    /// The caller's token of an upstream provider, as `Authorization: Bearer`.
    pub struct UpstreamInject {
        /// Name of an upstream provider of the embedded authorization server.
        pub provider_name: ProviderName;
    }
}

// === impl OutgoingAuth ===

impl OutgoingAuth {
    /// Returns the strategy for `backend`: its own entry, or else the default.
    #[must_use]
    pub fn strategy_for(&self, backend: &str) -> Option<&Strategy> {
        self.backends.get(backend).or(self.default.as_ref())
    }

    /// Returns every strategy with its path.
    pub(crate) fn strategies(&self) -> impl Iterator<Item = (String, &Strategy)> {
        let default =
            self.default.iter().map(|strategy| ("outgoingAuth.default".to_owned(), strategy));
        let own = self.backends.iter();
        default
            .chain(own.map(|(name, strategy)| (format!("outgoingAuth.backends.{name}"), strategy)))
    }
}

impl Default for Source {
    /// Returns the settings that apply without the section. Within the section, the key is required.
    fn default() -> Self {
        Self::Inline
    }
}
