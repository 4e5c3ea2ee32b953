//! Contradictions between sections that are valid on their own.

use std::collections::HashSet;

use crate::{
    ConfigError, File,
    incoming_auth::IncomingMethod,
    outgoing_auth::{OutgoingAuth, Source, Strategy},
    suggest::nearest,
    tree::shorten,
};

impl File {
    /// Returns contradictions between valid sections, such as a token exchange for callers that have no token.
    #[must_use]
    pub fn contradictions(&self) -> Vec<ConfigError> {
        let mut errors = Vec::new();
        callers_without_tokens(self, &mut errors);
        unknown_backends(self, &mut errors);
        errors.extend(self.steps_that_call_composite_tools());
        errors
    }
}

/// Reports strategies that need the caller's token if callers have none.
fn callers_without_tokens(file: &File, errors: &mut Vec<ConfigError>) {
    let method = match &file.incoming_auth.method {
        IncomingMethod::Anonymous => "anonymous",
        IncomingMethod::Local => "local",
        IncomingMethod::Oidc(_) => return,
    };
    for (path, strategy) in file.outgoing_auth.strategies() {
        let (strategy, provider) = match strategy {
            Strategy::TokenExchange(it) => ("token_exchange", &it.subject_provider_name),
            Strategy::AwsSts(it) => ("aws_sts", &it.subject_provider_name),
            Strategy::Unauthenticated
            | Strategy::HeaderInjection(_)
            | Strategy::UpstreamInject(_) => continue,
        };
        // A provider without an authorization server is refused by its name.
        if provider.is_none() {
            errors.push(ConfigError::new(
                format!("{path}.type"),
                format!("{strategy} with incomingAuth.type: {method}, whose callers have no token"),
                "unauthenticated or header_injection, or incomingAuth.type: oidc",
            ));
        }
    }
}

/// Reports credentials for unknown backends. The intended backend would have none.
fn unknown_backends(file: &File, errors: &mut Vec<ConfigError>) {
    let OutgoingAuth { source, default: _, backends } = &file.outgoing_auth;
    if *source == Source::Discovered {
        return;
    }
    let names: HashSet<&str> = file.backends.iter().map(|backend| backend.name.as_str()).collect();
    for name in backends.keys().filter(|name| !names.contains(name.as_str())) {
        let error = ConfigError::new(
            format!("outgoingAuth.backends.{name}"),
            format!("\"{}\", which is not a backend", shorten(name)),
            "the name of an entry in backends",
        );
        let suggestion = nearest(name, names.iter().copied()).map(ToOwned::to_owned);
        errors.push(ConfigError { suggestion, ..error });
    }
}
