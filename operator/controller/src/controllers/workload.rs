//! Controller of MCPServer and MCPRemoteProxy: whether their authorization servers are among those that such workloads support.
//! Another product runs the workloads, and writes the rest of their status.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;
use vmcp_api::condition::ConditionReason;
use vmcp_api::conversion::ConditionUpdate;
use vmcp_api::virtual_mcp_server::AuthzSource;
use vmcp_api::{
    AuthServerRef, AuthServerRefValidated, AuthzPrimaryUpstreamProviderIgnored, ExternalAuthType,
    MCPExternalAuthConfig, MCPRemoteProxy, MCPServer, NameRef, OidcConfigRef, WorkloadAuthzConfig,
};

use super::shared_config::errors_of;
use super::transition::{notice, publish};
use super::{Context, RESYNC_INTERVAL};
use crate::apply::ApplyError;
use crate::conditions::Conditions;
use crate::key::{Kind, ObjectKey};
use crate::lookup::Lookup;
use crate::status::{are_same, write_status};
use crate::stores::WatchedWhole;

const TYPES: [&str; 2] = [AuthServerRefValidated::TYPE, AuthzPrimaryUpstreamProviderIgnored::TYPE];

const WARNINGS: [&str; 1] = [AuthzPrimaryUpstreamProviderIgnored::TYPE];

/// Parts of a workload that concern authentication.
pub(crate) struct WorkloadAuth<'w> {
    auth_server: Option<&'w AuthServerRef>,
    credentials: Option<&'w NameRef>,
    oidc: Option<&'w OidcConfigRef>,
    authz: Option<&'w WorkloadAuthzConfig>,
}

/// Workload that another product runs.
pub(crate) trait Workload: WatchedWhole<Kept = Self> {
    fn auth(&self) -> WorkloadAuth<'_>;

    fn conditions(&self) -> &[Condition];
}

macro_rules! workloads {
    ($($kind:ident),+) => {
        $(
            impl Workload for $kind {
                fn auth(&self) -> WorkloadAuth<'_> {
                    WorkloadAuth {
                        auth_server: self.spec.auth_server_ref.as_ref(),
                        credentials: self.spec.external_auth_config_ref.as_ref(),
                        oidc: self.spec.oidc_config_ref.as_ref(),
                        authz: self.spec.authz_config.as_ref(),
                    }
                }

                fn conditions(&self) -> &[Condition] {
                    self.status.as_ref().map_or(&[], |status| &status.conditions)
                }
            }
        )+
    };
}

workloads!(MCPServer, MCPRemoteProxy);

/// Reconciles a workload, and returns the time after which it is due again.
pub(super) async fn reconcile<W: Workload>(
    context: &Context,
    target: &ObjectKey,
) -> Result<Option<Duration>, ApplyError> {
    let Some(workload) = W::store(&context.stores).get(&target.key) else { return Ok(None) };
    if workload.meta().deletion_timestamp.is_some() {
        return Ok(None);
    }
    let mut lookup = Lookup::new(&context.stores, target.clone());
    let updates = judge(&mut lookup, &workload.auth());
    lookup.finish();
    let before = Conditions::of(workload.conditions(), |type_| TYPES.contains(&type_));
    let generation = workload.meta().generation;
    let conditions = before.updated(updates, true, generation, context.environment.now());
    if !are_same(conditions.list(), before.list()) {
        let status = match conditions.list() {
            [] => json!({}),
            list => json!({ "conditions": list }),
        };
        write_status(&context.client, &context.stores, &*workload, &status).await?;
    }
    let transitions = conditions.transitions(&before);
    let notices = transitions.iter().filter_map(|one| notice(one, &WARNINGS)).collect();
    publish(context, &*workload, notices).await;
    Ok(Some(context.environment.jitter(RESYNC_INTERVAL)))
}

/// Returns the conditions about the authorization server of a workload and about its policies.
pub(crate) fn judge(lookup: &mut Lookup<'_>, auth: &WorkloadAuth<'_>) -> Vec<ConditionUpdate> {
    let server = auth_server(lookup, auth).map(|result| match result {
        Ok(message) => ConditionUpdate::new(AuthServerRefValidated::Valid, message),
        Err((reason, message)) => ConditionUpdate::new(reason, message),
    });
    server.into_iter().chain(ignored_provider(auth)).collect()
}

/// Returns the condition about a provider for policies: tokens of such a workload have one upstream provider.
fn ignored_provider(auth: &WorkloadAuth<'_>) -> Option<ConditionUpdate> {
    let authz = auth.authz.filter(|authz| authz.kind == AuthzSource::Inline)?;
    let provider = authz.inline.as_ref()?.primary_upstream_provider.as_deref()?;
    let message = format!(
        "spec.authzConfig.inline.primaryUpstreamProvider {provider} has no effect: the workload has one upstream provider at most"
    );
    Some(ConditionUpdate::new(AuthzPrimaryUpstreamProviderIgnored::Ignored, message))
}

/// Returns the result of the check of the authorization server; `None` if the workload has none.
fn auth_server(
    lookup: &mut Lookup<'_>,
    auth: &WorkloadAuth<'_>,
) -> Option<Result<String, (AuthServerRefValidated, String)>> {
    const KIND: Kind = Kind::MCPExternalAuthConfig;
    let credentials = auth.credentials.and_then(|NameRef { name }| {
        let config = lookup.get::<MCPExternalAuthConfig>(name)?;
        (config.spec.kind == ExternalAuthType::EmbeddedAuthServer).then_some((name, config))
    });
    let (path, name, config) = match (auth.auth_server, credentials) {
        (None, None) => return None,
        (Some(AuthServerRef { kind, .. }), _) if kind != KIND.as_str() => {
            let message =
                format!("spec.authServerRef.kind: found {kind}; allowed: {}", KIND.as_str());
            return Some(Err((AuthServerRefValidated::InvalidKind, message)));
        }
        (Some(_), Some((name, _))) => {
            let message = format!(
                "spec.externalAuthConfigRef: MCPExternalAuthConfig {name} is an authorization server beside that of spec.authServerRef; allowed: one of them"
            );
            return Some(Err((AuthServerRefValidated::InvalidConfig, message)));
        }
        (Some(AuthServerRef { kind: _, name }), None) => {
            let path = "spec.authServerRef";
            let Some(config) = lookup.get::<MCPExternalAuthConfig>(name) else {
                let message = format!("{path}: MCPExternalAuthConfig {name} does not exist");
                return Some(Err((AuthServerRefValidated::NotFound, message)));
            };
            (path, name, config)
        }
        (None, Some((name, config))) => ("spec.externalAuthConfigRef", name, config),
    };
    let checked = check_config(&config).and_then(|()| check_audience(auth.oidc));
    Some(match checked {
        Ok(()) => Ok(format!("MCPExternalAuthConfig {name} is the authorization server")),
        Err((reason, message)) => {
            Err((reason, format!("{path}: MCPExternalAuthConfig {name}: {message}")))
        }
    })
}

/// Checks that a resource is an authorization server with one upstream provider.
fn check_config(config: &MCPExternalAuthConfig) -> Result<(), (AuthServerRefValidated, String)> {
    let kind = config.spec.kind;
    if kind != ExternalAuthType::EmbeddedAuthServer {
        let found = serde_json::to_value(kind).unwrap_or_default();
        let message = format!(
            "found type: {}; allowed: embeddedAuthServer",
            found.as_str().unwrap_or_default()
        );
        return Err((AuthServerRefValidated::InvalidType, message));
    }
    let errors: Vec<_> = errors_of(config).iter().map(ToString::to_string).collect();
    if !errors.is_empty() {
        return Err((AuthServerRefValidated::InvalidConfig, errors.join("; ")));
    }
    let upstreams = config.auth_server().map_or(0, |server| server.upstream_providers.len());
    if upstreams > 1 {
        let message = format!("found {upstreams} upstream providers; allowed: one");
        return Err((AuthServerRefValidated::MultiUpstream, message));
    }
    Ok(())
}

/// Checks that the authorization server issues tokens for the workload: their audience is its resource URL.
fn check_audience(oidc: Option<&OidcConfigRef>) -> Result<(), (AuthServerRefValidated, String)> {
    let Some(OidcConfigRef { audience, resource_url: Some(url), .. }) = oidc else { return Ok(()) };
    if audience == url || url.is_empty() {
        return Ok(());
    }
    let message = format!(
        "it issues tokens for spec.oidcConfigRef.resourceUrl {url}, and the workload accepts spec.oidcConfigRef.audience {audience}; allowed: equal ones"
    );
    Err((AuthServerRefValidated::InvalidConfig, message))
}
