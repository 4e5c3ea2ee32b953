//! `backends`: connection settings of each backend.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::{iter, time};

use http::Uri;
use http::uri::InvalidUri;
use url::Url;
use vmcp_aggregate::settings::{BackendSettings, ServiceWrapper, Transport};
use vmcp_breaker::{CircuitHandle, CircuitSettings};
use vmcp_config::{
    Backend, BackendKind, BackendUrl, BackendUrlError, ConfigError, Timeouts,
    Transport as ConfigTransport, Warning,
};
use vmcp_egress::{ClientSettings, ConfigError as EgressConfigError};
use vmcp_telemetry::ClientTelemetryLayer;
use vmcp_timeout::TimeoutLayer;

use super::credential_advice::{CredentialAdvisor, KnownIssuers};
use super::credentials::Strategies;
use super::environment::Environment;
use super::left_out::{BackendError, LeftOutBackend, LeftOutReason};
use super::{BackendInfo, PartsBuilder, ServerInfo, headers};
use crate::stack::OutgoingLayers;

/// Settings that all backends share.
pub(super) struct SharedSettings<'a> {
    pub(super) timeouts: &'a Timeouts,
    pub(super) strategies: &'a Strategies,
    pub(super) circuit: Option<CircuitSettings>,
    pub(super) issuers: Arc<KnownIssuers>,
    pub(super) builder: PartsBuilder<'a>,
    /// Metrics and traces; `None` disables them.
    pub(super) layer: Option<ClientTelemetryLayer>,
}

/// Converted backends.
pub(super) struct Converted {
    pub(super) backends: Vec<BackendSettings>,
    /// Descriptions of all backends, and those whose secrets are not there yet or unusable.
    pub(super) info: ServerInfo,
}

/// Returns the valid backends of `group`, and the errors of the others.
pub(super) fn settings(
    backends: Vec<Backend>,
    group: &str,
    shared: &SharedSettings<'_>,
    errors: &mut Vec<ConfigError>,
    warnings: &mut Vec<Warning>,
) -> Converted {
    let timeout_layer = timeout_layer(shared.timeouts);
    let ready = Vec::with_capacity(backends.len());
    let known = backends.iter().map(|backend| describe(backend, group, shared.strategies));
    let group = group.to_owned();
    let info = ServerInfo { group, backends: known.collect(), ..ServerInfo::default() };
    let mut all = Converted { backends: ready, info };
    for (index, backend) in backends.into_iter().enumerate() {
        let name = backend.name.clone();
        let found = match convert(backend, shared, &timeout_layer, index) {
            Ok(settings) => {
                all.backends.push(settings);
                continue;
            }
            Err(found) => found,
        };
        let mut first = None;
        for error in found {
            match error {
                BackendError::Config(error) => errors.push(error),
                BackendError::LeftOut(reason, message) => {
                    let backend = name.clone();
                    first.get_or_insert(LeftOutBackend { backend, reason, message });
                }
            }
        }
        warnings.extend(first.iter().map(|one| one.warning(format!("backends[{index}]"))));
        all.info.left_out.extend(first);
    }
    all
}

fn convert(
    backend: Backend,
    shared: &SharedSettings<'_>,
    timeout_layer: &TimeoutLayer,
    index: usize,
) -> Result<BackendSettings, Vec<BackendError>> {
    let SharedSettings { timeouts, strategies, circuit, issuers, builder, layer } = shared;
    let PartsBuilder { egress, environment, telemetry: _, is_replica: _ } = *builder;
    let mut digest = DefaultHasher::new();
    let Backend { name, url: source, transport, kind, headers, metadata: _ } = backend;
    let strategy = strategies.for_backend(&name).map_err(|error| vec![error])?;
    let headers = headers::layer(index, &headers, &strategy, environment, &mut digest);
    let (url, headers) = both(resolve(index, &source, environment), headers)?;
    (url.as_str(), &name).hash(&mut digest);
    let settings = client_settings(&source, kind, &mut digest);
    let advisor = CredentialAdvisor {
        name: name.clone(),
        url: url.clone(),
        is_hidden: settings.display_origin.is_some(),
        ca_bundle: settings.ca_bundle.clone(),
        strategy: strategy.name,
        issuers: Arc::clone(issuers),
        egress: egress.clone(),
    };
    let client = egress.client(&url, settings);
    let client = client.map_err(|error| vec![client_error(index, &source, &error, environment)])?;
    let uri = uri(index, &url, &source).map_err(|error| vec![BackendError::Config(error)])?;
    let transport = convert_transport(transport);
    transport.hash(&mut digest);
    // A connection that was opened with one credential must not serve another.
    strategy.digest.hash(&mut digest);
    let fingerprint = digest.finish();
    time::Duration::from(timeouts.for_backend(&name)).hash(&mut digest);
    format!("{circuit:?}").hash(&mut digest);
    let service_revision = digest.finish();
    let backend = vmcp_core::Backend::new(&name);
    let breaker = circuit.map(|settings| CircuitHandle::new(backend.clone(), settings));
    let outgoing = OutgoingLayers {
        telemetry: layer.clone(),
        breaker: breaker.clone(),
        credentials: strategy.credentials,
        headers,
        timeouts: timeout_layer.clone(),
        client,
    };
    let message_timeout = timeout_layer.limit(Some(&backend));
    let (service, wrapper) = match transport {
        Transport::StreamableHttp => (outgoing.stack(), ServiceWrapper::default()),
        Transport::Sse => outgoing.legacy_sse_stack(),
    };
    Ok(BackendSettings {
        backend,
        uri,
        transport,
        catalog: strategy.catalog,
        service,
        wrapper,
        breaker,
        credential_advice: advisor.advice(),
        message_timeout,
        fingerprint,
        service_revision,
    })
}

/// Returns both values, or the errors of both.
fn both<A, B>(
    one: Result<A, BackendError>,
    other: Result<B, Vec<BackendError>>,
) -> Result<(A, B), Vec<BackendError>> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Ok(_), Err(errors)) => Err(errors),
        (Err(error), Ok(_)) => Err(vec![error]),
        (Err(error), Err(errors)) => Err(iter::once(error).chain(errors).collect()),
    }
}

/// Returns the URL with the values of its variables.
fn resolve(index: usize, url: &BackendUrl, environment: &Environment) -> Result<Url, BackendError> {
    url.resolve(|name| environment.variable(name)).map_err(|error| {
        let allowed = format!("a usable URL ({error})");
        let invalid = config_error(index, "url", url.as_str().to_owned(), allowed);
        let (reason, message) = match error {
            BackendUrlError::MissingVariable(missing) => {
                (LeftOutReason::SecretPending, format!("secret {} is not there yet", missing.0))
            }
            BackendUrlError::InvalidUrl => (LeftOutReason::SecretInvalid, error.to_string()),
        };
        environment.backend_error(invalid, reason, message)
    })
}

/// Converts a URL into the type of requests.
fn uri(index: usize, url: &Url, source: &BackendUrl) -> Result<Uri, ConfigError> {
    url.as_str().parse().map_err(|error: InvalidUri| {
        config_error(index, "url", shown_url(source), format!("a usable URL ({error})"))
    })
}

/// Returns the name of a transport in the configuration, in `/status` and in reports.
#[must_use]
pub fn transport_name(transport: Transport) -> &'static str {
    match transport {
        Transport::Sse => "sse",
        Transport::StreamableHttp => "streamable-http",
    }
}

fn convert_transport(transport: ConfigTransport) -> Transport {
    match transport {
        ConfigTransport::Sse => Transport::Sse,
        ConfigTransport::StreamableHttp => Transport::StreamableHttp,
    }
}

/// Builds the settings of the client: addresses, trust anchors and redaction.
fn client_settings(
    url: &BackendUrl,
    kind: BackendKind,
    digest: &mut DefaultHasher,
) -> ClientSettings {
    let (ca_bundle_path, allows_private) = match kind {
        BackendKind::Workload => (None, None),
        BackendKind::Entry { ca_bundle_path, allow_private_endpoint } => {
            (ca_bundle_path, allow_private_endpoint)
        }
    };
    allows_private.hash(digest);
    let mut settings = match allows_private {
        Some(false) => ClientSettings::public_only(),
        Some(true) => ClientSettings::private_or_public(),
        // The administrator configures backends, usually on private addresses.
        None => ClientSettings::allowing_private_addresses(),
    };
    if let Some(origin) = url.hidden_origin() {
        settings = settings.with_display_origin(origin);
    }
    if let Some(path) = ca_bundle_path {
        // A bundle renewed under the same path changes the fingerprint.
        std::fs::read(path.as_path()).unwrap_or_default().hash(digest);
        settings = settings.with_ca_bundle(path.as_path());
    }
    settings
}

/// Builds the timeout layer from the default and the timeouts per backend.
fn timeout_layer(timeouts: &Timeouts) -> TimeoutLayer {
    let Timeouts { default, per_workload } = timeouts;
    let of = |(name, time): (&String, &vmcp_config::Duration)| {
        (vmcp_core::Backend::new(name), (*time).into())
    };
    TimeoutLayer::new((*default).into())
        .per_backend(per_workload.iter().map(of).collect::<HashMap<_, _>>())
}

fn client_error(
    index: usize,
    url: &BackendUrl,
    error: &EgressConfigError,
    environment: &Environment,
) -> BackendError {
    let (path, reason, message) = match error {
        EgressConfigError::CaBundleEmpty { path }
        | EgressConfigError::CaBundleInvalid { path, .. } => {
            (path, LeftOutReason::SecretInvalid, format!("CA bundle: {error}"))
        }
        EgressConfigError::CaBundleUnreadable { path, .. } => {
            let message = format!("CA bundle {} is not there yet", path.display());
            (path, LeftOutReason::SecretPending, message)
        }
        EgressConfigError::NoHost
        | EgressConfigError::Scheme { .. }
        | EgressConfigError::UserInfo => {
            let allowed = format!("a usable URL ({error})");
            return BackendError::Config(config_error(index, "url", shown_url(url), allowed));
        }
    };
    let allowed = format!("a readable file of PEM certificates ({error})");
    let invalid = config_error(index, "caBundlePath", path.display().to_string(), allowed);
    environment.backend_error(invalid, reason, message)
}

fn config_error(index: usize, key: &str, found: String, allowed: String) -> ConfigError {
    ConfigError::new(format!("backends[{index}].{key}"), found, allowed)
}

/// Describes a backend's configuration for `/status`.
fn describe(backend: &Backend, group: &str, strategies: &Strategies) -> (String, BackendInfo) {
    let mut metadata = backend.metadata.clone();
    metadata.insert("group".to_owned(), group.to_owned());
    let entry = matches!(backend.kind, BackendKind::Entry { .. });
    let auth = strategies.name_for_backend(&backend.name);
    (backend.name.clone(), BackendInfo { url: shown_url(&backend.url), entry, auth, metadata })
}

/// Returns a URL for display: names of variables replace their values, and the query is removed.
fn shown_url(url: &BackendUrl) -> String {
    match url {
        BackendUrl::Literal(url) => {
            let mut url = url.clone();
            url.set_query(None);
            url.to_string()
        }
        BackendUrl::Template(template) => {
            template.source().split('?').next().unwrap_or_default().to_owned()
        }
    }
}
