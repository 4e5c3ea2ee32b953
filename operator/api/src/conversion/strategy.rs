//! Credentials for a backend from an MCPExternalAuthConfig.

use serde_json::Value;
use vmcp_config::{
    ClientSecret, ConfigError, ConfigErrors, HeaderName, HeaderValue, ProviderName, Strategy,
    TokenType, from_json,
};

use super::{
    LeftOutReason, SecretForm,
    converter::{Converter, describe_all, env_name, secret},
};
use crate::{
    BearerToken, ExternalAuthType, HeaderInjection, Inline, InlineType, MCPExternalAuthConfig,
    MCPExternalAuthConfigSpec, TokenExchange, condition::ConditionStatus,
};

/// Reason for which credentials could not be resolved.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct StrategyError {
    pub(super) kind: StrategyErrorKind,
    pub(super) message: String,
}

/// Kind of a [`StrategyError`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum StrategyErrorKind {
    /// The MCPExternalAuthConfig does not exist.
    NotFound,
    /// The MCPExternalAuthConfig is invalid.
    Invalid,
    /// Its controller reports that it is invalid, with this reason.
    ReportedInvalid(String),
    /// It names an upstream provider that the server does not have.
    UnknownProvider,
    /// It is of a kind that is not a credential for backends.
    Unsupported,
    /// A Secret does not exist yet.
    SecretPending,
}

/// Tokens that a request has for credentials of backends.
#[derive(Clone, Debug, Default)]
pub(super) struct Providers {
    /// Names of the upstream providers of the embedded authorization server, in order.
    pub(super) names: Vec<ProviderName>,
    /// `true` if callers present tokens.
    pub(super) has_caller_tokens: bool,
}

impl Converter<'_> {
    /// Converts the MCPExternalAuthConfig of a name.
    pub(super) fn strategy(
        &mut self,
        name: &str,
        providers: &Providers,
    ) -> Result<Strategy, StrategyError> {
        let Some(config) = self.inputs.external_auth_configs.get(name) else {
            let message = format!("MCPExternalAuthConfig {name} does not exist");
            return Err(StrategyError::new(StrategyErrorKind::NotFound, message));
        };
        let strategy = self.own_settings(name, &config.spec)?;
        let strategy = providers.complete(&format!("MCPExternalAuthConfig {name}"), strategy)?;
        if self.inputs.checks.is_none() {
            reported_error(name, config)?;
        }
        Ok(strategy)
    }

    /// Converts the settings of an MCPExternalAuthConfig, before the server completes them.
    pub(super) fn own_settings(
        &mut self,
        name: &str,
        spec: &MCPExternalAuthConfigSpec,
    ) -> Result<Strategy, StrategyError> {
        let strategy = self.converted(name, spec)?;
        let written = serde_json::to_value(&strategy)
            .map_err(|error| StrategyError::new(StrategyErrorKind::Invalid, error.to_string()))?;
        let strategy =
            from_json(&written).map_err(|errors| invalid_settings(name, errors.iter()))?;
        let checks = self.inputs.checks.as_ref();
        let errors = checks.map(|checks| checks.strategy(&strategy)).unwrap_or_default();
        if errors.is_empty() {
            return Ok(strategy);
        }
        Err(invalid_settings(name, errors.iter()))
    }

    fn converted(
        &mut self,
        name: &str,
        spec: &MCPExternalAuthConfigSpec,
    ) -> Result<Strategy, StrategyError> {
        let MCPExternalAuthConfigSpec {
            kind,
            token_exchange,
            header_injection,
            bearer_token,
            // Concerns the incoming side of the workload that refers to it.
            embedded_auth_server: _,
            aws_sts,
            upstream_inject,
        } = spec;
        match kind {
            ExternalAuthType::Unauthenticated => Ok(Strategy::Unauthenticated),
            ExternalAuthType::HeaderInjection => self
                .header_injection(name, part(name, "headerInjection", header_injection.as_ref())?),
            ExternalAuthType::BearerToken => {
                self.bearer_token(name, part(name, "bearerToken", bearer_token.as_ref())?)
            }
            ExternalAuthType::TokenExchange => {
                let exchange = part(name, "tokenExchange", token_exchange.as_ref())?;
                self.token_exchange(name, exchange).map(Strategy::TokenExchange)
            }
            ExternalAuthType::AwsSts => {
                inline(name, "awsSts", aws_sts.as_ref()).map(Strategy::AwsSts)
            }
            ExternalAuthType::UpstreamInject => {
                inline(name, "upstreamInject", upstream_inject.as_ref())
                    .map(Strategy::UpstreamInject)
            }
            ExternalAuthType::EmbeddedAuthServer => Err(StrategyError::new(
                StrategyErrorKind::Unsupported,
                format!(
                    "MCPExternalAuthConfig {name} has type embeddedAuthServer, which authenticates callers of a workload; \
                     backends need another type"
                ),
            )),
        }
    }

    fn header_injection(
        &mut self,
        name: &str,
        injection: &HeaderInjection,
    ) -> Result<Strategy, StrategyError> {
        let HeaderInjection { header_name, value_secret_ref } = injection;
        let at = "spec.headerInjection.valueSecretRef";
        let header_name = header(name, "spec.headerInjection.headerName", header_name)?;
        let value = self.source(secret(value_secret_ref), &at_config(name, at))?;
        let value = HeaderValue::Env(env_name(&value));
        Ok(Strategy::HeaderInjection(vmcp_config::HeaderInjection { header_name, value }))
    }

    fn bearer_token(&mut self, name: &str, token: &BearerToken) -> Result<Strategy, StrategyError> {
        let BearerToken { token_secret_ref } = token;
        let at = "spec.bearerToken.tokenSecretRef";
        let header_name = header(name, "spec.bearerToken", "Authorization")?;
        let source = secret(token_secret_ref).with_form(SecretForm::Bearer);
        let value = self.source(source, &at_config(name, at))?;
        let value = HeaderValue::Env(env_name(&value));
        Ok(Strategy::HeaderInjection(vmcp_config::HeaderInjection { header_name, value }))
    }

    fn token_exchange(
        &mut self,
        name: &str,
        exchange: &TokenExchange,
    ) -> Result<vmcp_config::TokenExchange, StrategyError> {
        let TokenExchange {
            token_url,
            audience,
            client_id,
            client_secret_ref,
            scopes,
            subject_token_type,
            subject_provider_name,
            external_token_header_name,
        } = exchange;
        let at = "spec.tokenExchange";
        let text = |key: &str, text: &str| (format!("{at}.{key}"), Value::from(text));
        let (path, value) = text("tokenUrl", token_url);
        let token_url = from_json(&value).map_err(|errors| invalid(name, &path, &errors))?;
        let subject_token_type = match filled(subject_token_type.as_deref()) {
            None => TokenType::AccessToken,
            Some(kind) => {
                let (path, value) = text("subjectTokenType", kind);
                from_json(&value).map_err(|errors| invalid(name, &path, &errors))?
            }
        };
        let subject = match filled(subject_provider_name.as_deref()) {
            None => None,
            Some(provider) => {
                let (path, value) = text("subjectProviderName", provider);
                Some(from_json(&value).map_err(|errors| invalid(name, &path, &errors))?)
            }
        };
        let external_token_header_name = filled(external_token_header_name.as_deref())
            .map(|text| header(name, "spec.tokenExchange.externalTokenHeaderName", text))
            .transpose()?;
        let client_secret = match client_secret_ref {
            None => None,
            Some(reference) => {
                let path = at_config(name, "spec.tokenExchange.clientSecretRef");
                let file = self.source(secret(reference), &path)?;
                Some(ClientSecret::Env(env_name(&file)))
            }
        };
        Ok(vmcp_config::TokenExchange {
            token_url,
            audience: Some(audience.clone()),
            client_id: filled(client_id.as_deref()).map(str::to_owned),
            client_secret,
            scopes: scopes.clone(),
            subject_token_type,
            subject_provider_name: subject,
            external_token_header_name,
        })
    }
}

impl Providers {
    /// Returns the first provider.
    pub(super) fn first(&self) -> Option<&ProviderName> {
        self.names.first()
    }

    /// Returns `true` if there is a provider of this name.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.names.iter().any(|known| known.as_str() == name)
    }

    /// Returns the provider whose token is presented: the named one, or else the first. `None` presents the caller's token.
    fn subject(
        &self,
        owner: &str,
        name: Option<ProviderName>,
    ) -> Result<Option<ProviderName>, StrategyError> {
        match name {
            None if self.names.is_empty() && !self.has_caller_tokens => {
                let message = format!(
                    "{owner} needs the token of the caller, and callers have none with spec.incomingAuth.type: anonymous"
                );
                Err(StrategyError::new(StrategyErrorKind::Invalid, message))
            }
            None => Ok(self.first().cloned()),
            Some(name) => self.check(owner, &name).map(|()| Some(name)),
        }
    }

    /// Completes the strategy that `owner` holds: a token exchange and a role without a provider use the first one.
    pub(super) fn complete(
        &self,
        owner: &str,
        mut strategy: Strategy,
    ) -> Result<Strategy, StrategyError> {
        match &mut strategy {
            Strategy::TokenExchange(exchange) => {
                let provider = exchange.subject_provider_name.take();
                exchange.subject_provider_name = self.subject(owner, provider)?;
            }
            Strategy::AwsSts(aws) => {
                let provider = aws.subject_provider_name.take();
                aws.subject_provider_name = self.subject(owner, provider)?;
            }
            Strategy::UpstreamInject(inject) => self.check(owner, &inject.provider_name)?,
            Strategy::Unauthenticated | Strategy::HeaderInjection(_) => {}
        }
        Ok(strategy)
    }

    fn check(&self, owner: &str, name: &ProviderName) -> Result<(), StrategyError> {
        if self.contains(name.as_str()) {
            return Ok(());
        }
        let known: Vec<&str> = self.names.iter().map(ProviderName::as_str).collect();
        let allowed = if known.is_empty() {
            "the server has no authServerConfig".to_owned()
        } else {
            format!("the upstream providers of the server are {}", known.join(", "))
        };
        let message = format!("{owner} names the upstream provider {name}; {allowed}");
        Err(StrategyError::new(StrategyErrorKind::UnknownProvider, message))
    }
}

impl StrategyError {
    fn new(kind: StrategyErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Returns the reason for which the backend is left out.
    pub(super) fn left_out(&self) -> LeftOutReason {
        match self.kind {
            StrategyErrorKind::NotFound => LeftOutReason::AuthConfigNotFound,
            StrategyErrorKind::Invalid
            | StrategyErrorKind::ReportedInvalid(_)
            | StrategyErrorKind::UnknownProvider => LeftOutReason::AuthConfigInvalid,
            StrategyErrorKind::Unsupported => LeftOutReason::AuthConfigUnsupported,
            StrategyErrorKind::SecretPending => LeftOutReason::SecretPending,
        }
    }
}

impl From<super::converter::Missing> for StrategyError {
    fn from(missing: super::converter::Missing) -> Self {
        Self::new(StrategyErrorKind::SecretPending, missing.to_string())
    }
}

/// Returns the error that the controller of a resource reports about its current generation.
fn reported_error(name: &str, config: &MCPExternalAuthConfig) -> Result<(), StrategyError> {
    let Some(status) = &config.status else { return Ok(()) };
    let invalid = status.conditions.iter().find(|condition| {
        let is_current = condition.observed_generation.is_none()
            || condition.observed_generation == config.metadata.generation;
        condition.type_ == "Valid"
            && condition.status == ConditionStatus::False.as_str()
            && is_current
    });
    match invalid {
        None => Ok(()),
        Some(condition) => Err(StrategyError::new(
            StrategyErrorKind::ReportedInvalid(condition.reason.clone()),
            format!("MCPExternalAuthConfig {name} is invalid: {}", condition.message),
        )),
    }
}

fn part<'a, T>(name: &str, key: &str, value: Option<&'a T>) -> Result<&'a T, StrategyError> {
    value.ok_or_else(|| {
        let message =
            format!("MCPExternalAuthConfig {name}: spec.{key}: found no value; allowed: a value");
        StrategyError::new(StrategyErrorKind::Invalid, message)
    })
}

fn inline<T: InlineType>(
    name: &str,
    key: &str,
    value: Option<&Inline<T>>,
) -> Result<T, StrategyError> {
    let part = part(name, key, value)?;
    part.parse().map_err(|errors| invalid(name, &format!("spec.{key}"), &errors))
}

fn header(name: &str, path: &str, text: &str) -> Result<HeaderName, StrategyError> {
    from_json(&Value::from(text)).map_err(|errors| invalid(name, path, &errors))
}

fn invalid(name: &str, path: &str, errors: &ConfigErrors) -> StrategyError {
    let message = format!("MCPExternalAuthConfig {name}: {path}: {}", describe_all(errors));
    StrategyError::new(StrategyErrorKind::Invalid, message)
}

/// Returns the error of settings whose errors have paths within `spec`.
fn invalid_settings<'e>(
    name: &str,
    errors: impl Iterator<Item = &'e ConfigError>,
) -> StrategyError {
    let errors: Vec<_> = errors.map(|error| format!("spec.{error}")).collect();
    let message = format!("MCPExternalAuthConfig {name}: {}", errors.join("; "));
    StrategyError::new(StrategyErrorKind::Invalid, message)
}

fn at_config(name: &str, path: &str) -> String {
    format!("MCPExternalAuthConfig/{name}: {path}")
}

/// Returns text that is not empty.
pub(super) fn filled(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}
