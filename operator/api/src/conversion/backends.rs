//! Backends of a server with their credentials.

use std::collections::{BTreeMap, BTreeSet};

use vmcp_config::{
    Backend, ClientSecret, EnvName, HeaderValue, OutgoingAuth, Source, Strategy,
    backend::ResourceDocument,
};

use super::{
    ConditionUpdate, LeftOut, Member, WarningReason,
    converter::{Converter, describe, join},
    members::{self, Obstacle, Overrides},
    strategy::{Providers, StrategyError, StrategyErrorKind},
};
use crate::{
    ExternalAuthType, NameRef,
    condition::ConditionReason,
    virtual_mcp_server::{
        BackendAuth, BackendAuthConfig, BackendAuthType, DefaultAuthConfig, DiscoveredAuthConfig,
        OutgoingAuthSource, ServerValid,
    },
};

/// Credentials for backends as the resource states them.
pub(super) struct Credentials {
    pub(super) source: Source,
    default: Option<Choice>,
    backends: BTreeMap<String, Choice>,
}

/// Key of a backend's metadata with the name of the MCPExternalAuthConfig that its credentials come from, for the status that the
/// pods report. The conversion sets it, and removes others.
pub const AUTH_CONFIG_METADATA: &str = "auth_config_ref";

/// Credentials, and the name of the MCPExternalAuthConfig that they come from.
#[derive(Clone)]
struct Resolved {
    strategy: Strategy,
    config: Option<String>,
}

/// Choice of the credentials for one backend.
enum Choice {
    /// Those of the backend's own reference.
    Own,
    /// Those of the resource itself, or the reason for which they could not be resolved.
    Fixed(Box<Result<Resolved, StrategyError>>),
}

/// Backends with their credentials, sorted by name.
#[derive(Default)]
pub(super) struct Converted {
    pub(super) backends: Vec<Backend>,
    pub(super) variables: BTreeSet<EnvName>,
    pub(super) strategies: BTreeMap<String, Strategy>,
    pub(super) left_out: Vec<LeftOut>,
}

impl Converter<'_> {
    /// Reads the credentials of the resource: `spec.outgoingAuth`, or else `spec.config.outgoingAuth`.
    pub(super) fn credentials(
        &mut self,
        inline: Option<OutgoingAuth>,
        providers: &Providers,
    ) -> Credentials {
        let Some(outgoing) = self.inputs.server.spec.outgoing_auth.as_ref() else {
            let Some(inline) = inline else { return Credentials::discovered() };
            let credentials = Credentials::from_inline(inline, providers);
            self.check_strategies(&credentials);
            for (path, strategy) in credentials.fixed() {
                if has_literal_secret(strategy) {
                    let message = format!(
                        "spec.config.outgoingAuth.{path} has a credential in plain text; refer to a Secret with spec.outgoingAuth"
                    );
                    self.warn(WarningReason::PlaintextCredential, message);
                }
            }
            return credentials;
        };
        if inline.is_some() {
            self.warn(
                WarningReason::ConfigOverridden,
                "spec.config.outgoingAuth has no effect: spec.outgoingAuth replaces it",
            );
        }
        let crate::virtual_mcp_server::OutgoingAuth { source, default, backends } = outgoing;
        let source = match source {
            OutgoingAuthSource::Discovered => Source::Discovered,
            OutgoingAuthSource::Inline => Source::Inline,
        };
        let default = default.as_ref().map(|auth| {
            let choice = self.choice(auth, providers);
            if let Choice::Fixed(result) = &choice {
                self.conditions.push(outcome(
                    result,
                    [DefaultAuthConfig::Succeeded, DefaultAuthConfig::Failed],
                    "",
                ));
            }
            choice
        });
        let backends = backends
            .iter()
            .map(|(name, auth)| {
                let choice = self.choice(auth, providers);
                if let Choice::Fixed(result) = &choice {
                    self.conditions.push(outcome(
                        result,
                        [BackendAuthConfig::Succeeded, BackendAuthConfig::Failed],
                        name,
                    ));
                }
                (name.clone(), choice)
            })
            .collect();
        Credentials { source, default, backends }
    }

    /// Records what the server refuses in the strategies of `spec.config`. Those of MCPExternalAuthConfigs are checked when they are
    /// converted.
    fn check_strategies(&mut self, credentials: &Credentials) {
        let Some(checks) = self.inputs.checks.clone() else { return };
        for (path, strategy) in credentials.fixed() {
            for error in checks.strategy(strategy) {
                let path = join(&format!("spec.config.outgoingAuth.{path}"), &error.path);
                self.reject(path, ServerValid::Invalid, describe(&error));
            }
        }
    }

    fn choice(&mut self, auth: &BackendAuth, providers: &Providers) -> Choice {
        let BackendAuth { kind, external_auth_config_ref } = auth;
        match kind {
            BackendAuthType::Discovered => Choice::Own,
            BackendAuthType::ExternalAuthConfigRef => {
                let name = external_auth_config_ref.as_ref().map(|NameRef { name }| name.as_str());
                Choice::Fixed(Box::new(self.resolve(name.unwrap_or_default(), providers)))
            }
        }
    }

    /// Resolves a reference to an MCPExternalAuthConfig.
    fn resolve(&mut self, name: &str, providers: &Providers) -> Result<Resolved, StrategyError> {
        let strategy = self.strategy(name, providers)?;
        Ok(Resolved { strategy, config: Some(name.to_owned()) })
    }

    /// Converts the members of the group.
    pub(super) fn members(
        &mut self,
        credentials: &Credentials,
        listed: &[Backend<ResourceDocument>],
        providers: &Providers,
    ) -> Converted {
        let overrides: Overrides<'_> =
            listed.iter().map(|backend| (backend.name.as_str(), backend)).collect();
        let (candidates, left_out) = members::candidates(&self.inputs.members);
        let mut converted = Converted { left_out, ..Converted::default() };
        for member in candidates {
            let is_discovered = credentials.source == Source::Discovered;
            let backend = self.backend(member, &overrides, is_discovered);
            let resolved = self.strategy_of(member, credentials, providers);
            match backend.and_then(|backend| Ok((backend, resolved?))) {
                Ok(((mut backend, variables), resolved)) => {
                    converted.variables.extend(variables);
                    backend.metadata.remove(AUTH_CONFIG_METADATA);
                    if let Some(Resolved { strategy, config }) = resolved {
                        let config = config.map(|name| (AUTH_CONFIG_METADATA.to_owned(), name));
                        backend.metadata.extend(config);
                        converted.strategies.insert(backend.name.clone(), strategy);
                    }
                    converted.backends.push(backend);
                }
                Err((reason, message)) => {
                    converted.left_out.push(LeftOut::new(member, reason, message));
                }
            }
        }
        converted
            .left_out
            .sort_by(|left, right| (&left.backend, left.kind).cmp(&(&right.backend, right.kind)));
        self.warn_unknown(listed, credentials);
        converted
    }

    /// Warns of settings for backends that are not members of the group.
    fn warn_unknown(&mut self, listed: &[Backend<ResourceDocument>], credentials: &Credentials) {
        let members: BTreeSet<&str> = self.inputs.members.iter().map(Member::name).collect();
        let path = self.outgoing_path();
        let listed = listed
            .iter()
            .enumerate()
            .map(|(index, backend)| (format!("spec.config.backends[{index}]"), &backend.name));
        let chosen =
            credentials.backends.keys().map(|name| (format!("{path}.backends.{name}"), name));
        let unknown: Vec<String> = listed
            .chain(chosen)
            .filter(|(_, name)| !members.contains(name.as_str()))
            .map(|(path, name)| {
                let group = &self.inputs.server.spec.group_ref.name;
                format!("{path} has no effect: {name} is not a member of MCPGroup {group}")
            })
            .collect();
        for message in unknown {
            self.warn(WarningReason::SettingWithoutEffect, message);
        }
    }

    /// Returns the path of the credentials that apply.
    pub(super) fn outgoing_path(&self) -> &'static str {
        match self.inputs.server.spec.outgoing_auth {
            Some(_) => "spec.outgoingAuth",
            None => "spec.config.outgoingAuth",
        }
    }

    /// Returns the credentials for a member: those of its name, else with discovered credentials those of its own reference,
    /// else the default.
    fn strategy_of(
        &mut self,
        member: &Member,
        credentials: &Credentials,
        providers: &Providers,
    ) -> Result<Option<Resolved>, Obstacle> {
        let Credentials { source, default, backends } = credentials;
        let resolved = |result: &Result<Resolved, StrategyError>| match result {
            Ok(resolved) => Ok(Some(resolved.clone())),
            Err(error) => Err((error.left_out(), error.message.clone())),
        };
        match backends.get(member.name()) {
            Some(Choice::Fixed(result)) => return resolved(result),
            Some(Choice::Own) => return self.own_strategy(member, providers),
            None => {}
        }
        if *source == Source::Discovered
            && let Some(resolved) = self.own_strategy(member, providers)?
        {
            return Ok(Some(resolved));
        }
        match default {
            Some(Choice::Fixed(result)) => resolved(result),
            Some(Choice::Own) => self.own_strategy(member, providers),
            None => Ok(None),
        }
    }

    /// Returns the credentials of a member's own reference. A reference to an authorization server concerns the callers of the
    /// member, and is none for this purpose.
    fn own_strategy(
        &mut self,
        member: &Member,
        providers: &Providers,
    ) -> Result<Option<Resolved>, Obstacle> {
        let reference = match member {
            Member::Server(server) => &server.spec.external_auth_config_ref,
            Member::Proxy(proxy) => &proxy.spec.external_auth_config_ref,
            Member::Entry(entry) => &entry.spec.external_auth_config_ref,
        };
        let Some(NameRef { name }) = reference else { return Ok(None) };
        let known = self.inputs.external_auth_configs.get(name);
        if known.is_some_and(|known| known.spec.kind == ExternalAuthType::EmbeddedAuthServer) {
            return Ok(None);
        }
        let result = self.resolve(name, providers);
        let condition = outcome(
            &result,
            [DiscoveredAuthConfig::Succeeded, DiscoveredAuthConfig::Failed],
            member.name(),
        );
        if !self.conditions.contains(&condition) {
            self.conditions.push(condition);
        }
        result.map(Some).map_err(|error| (error.left_out(), error.message))
    }
}

impl Credentials {
    fn discovered() -> Self {
        Self { source: Source::Discovered, default: None, backends: BTreeMap::new() }
    }

    fn from_inline(inline: OutgoingAuth, providers: &Providers) -> Self {
        let OutgoingAuth { source, default, backends } = inline;
        let choice = |strategy| {
            let strategy = providers.complete("the entry", strategy);
            Choice::Fixed(Box::new(strategy.map(|strategy| Resolved { strategy, config: None })))
        };
        Self {
            source,
            default: default.map(choice),
            backends: backends
                .into_iter()
                .map(|(name, strategy)| (name, choice(strategy)))
                .collect(),
        }
    }

    /// Returns the errors of references that name an upstream provider which the server does not have, by path.
    pub(super) fn provider_errors(&self) -> Vec<(String, String)> {
        let default = self.default.iter().map(|choice| ("default".to_owned(), choice));
        let backends =
            self.backends.iter().map(|(name, choice)| (format!("backends.{name}"), choice));
        default
            .chain(backends)
            .filter_map(|(path, choice)| match choice {
                Choice::Fixed(result) => {
                    let error = result.as_ref().as_ref().err()?;
                    let is_unknown = error.kind == StrategyErrorKind::UnknownProvider;
                    is_unknown.then(|| (path, error.message.clone()))
                }
                Choice::Own => None,
            })
            .collect()
    }

    /// Returns the strategies of the resource itself.
    fn fixed(&self) -> impl Iterator<Item = (String, &Strategy)> {
        let default = self.default.iter().map(|choice| ("default".to_owned(), choice));
        let backends =
            self.backends.iter().map(|(name, choice)| (format!("backends.{name}"), choice));
        default.chain(backends).filter_map(|(path, choice)| match choice {
            Choice::Fixed(result) => Some((path, &result.as_ref().as_ref().ok()?.strategy)),
            Choice::Own => None,
        })
    }
}

/// Returns `true` if the strategy has a credential in the resource itself.
fn has_literal_secret(strategy: &Strategy) -> bool {
    match strategy {
        Strategy::HeaderInjection(injection) => matches!(injection.value, HeaderValue::Literal(_)),
        Strategy::TokenExchange(exchange) => {
            matches!(exchange.client_secret, Some(ClientSecret::Literal(_)))
        }
        Strategy::Unauthenticated | Strategy::UpstreamInject(_) | Strategy::AwsSts(_) => false,
    }
}

/// Returns the condition of a conversion of credentials, for one backend unless its name is empty.
fn outcome<R: ConditionReason>(
    result: &Result<Resolved, StrategyError>,
    [succeeded, failed]: [R; 2],
    backend: &str,
) -> ConditionUpdate {
    let mut condition = match result {
        Ok(_) => ConditionUpdate::new(succeeded, "the credentials could be resolved"),
        Err(error) => ConditionUpdate::new(failed, error.message.clone()),
    };
    if let Err(StrategyError { kind: StrategyErrorKind::ReportedInvalid(reason), .. }) = result {
        condition.reason.clone_from(reason);
    }
    if !backend.is_empty() {
        condition.type_ = format!("{}-{backend}", condition.type_);
    }
    condition
}
