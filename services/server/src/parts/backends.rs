//! `backends`: connection settings of each backend.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time;

use http::Uri;
use http::uri::InvalidUri;
use vmcp_aggregate::settings::Transport;
use vmcp_breaker::{CircuitHandle, CircuitSettings};
use vmcp_config::{Backend, BackendKind, BackendUrl, ConfigError, Timeouts, Transport as Spoken};
use vmcp_egress::{ConfigError as EgressConfigError, Egress, Target};
use vmcp_timeout::TimeoutLayer;

use super::credential_advice::{Issuers, Refusing};
use super::credentials::Strategies;
use super::unstacked::Unreached;
use super::{AboutBackend, environment, headers};
use crate::stack::Outgoing;

/// Settings that all backends share.
pub(super) struct Around<'a> {
    pub(super) waiting: &'a Timeouts,
    pub(super) strategies: &'a Strategies,
    pub(super) breaking: Option<CircuitSettings>,
    pub(super) issuers: Arc<Issuers>,
    pub(super) egress: &'a Egress,
}

/// Returns the valid backends, and the errors of the others.
pub(super) fn settings(
    backends: Vec<Backend>,
    around: &Around<'_>,
) -> (Vec<Unreached>, Vec<ConfigError>) {
    let timeouts = layer(around.waiting);
    let mut ready = Vec::with_capacity(backends.len());
    let mut errors = Vec::new();
    for (index, backend) in backends.into_iter().enumerate() {
        match one(backend, around, &timeouts, index) {
            Ok(settings) => ready.push(settings),
            Err(wrong) => errors.extend(wrong),
        }
    }
    (ready, errors)
}

fn one(
    backend: Backend,
    around: &Around<'_>,
    timeouts: &TimeoutLayer,
    index: usize,
) -> Result<Unreached, Vec<ConfigError>> {
    let Around { waiting, strategies, breaking, issuers, egress } = around;
    let mut print = DefaultHasher::new();
    let Backend { name, url: source, transport, kind, headers, metadata: _ } = backend;
    let shown = strategies.of(&name);
    let headers = headers::layer(index, &headers, &shown, &mut print);
    let url = source.resolve(environment::variable).map_err(|error| {
        config_error(index, "url", source.as_str().to_owned(), format!("a usable URL ({error})"))
    });
    let (url, headers) = match (url, headers) {
        (Ok(url), Ok(headers)) => (url, headers),
        (url, headers) => {
            return Err(url.err().into_iter().chain(headers.err().unwrap_or_default()).collect());
        }
    };
    (url.as_str(), &name).hash(&mut print);
    let target = target(&source, kind, &mut print);
    let refusing = Refusing {
        name: name.clone(),
        url: url.clone(),
        is_hidden: target.display_origin.is_some(),
        ca_bundle: target.ca_bundle.clone(),
        strategy: shown.name,
        issuers: Arc::clone(issuers),
        egress: (*egress).clone(),
    };
    let client =
        egress.client(&url, target).map_err(|error| vec![refused(index, &source, &error)])?;
    let uri: Uri = url.as_str().parse().map_err(|error: InvalidUri| {
        vec![config_error(index, "url", shown_url(&source), format!("a usable URL ({error})"))]
    })?;
    let transport = spoken(transport);
    transport.hash(&mut print);
    // A connection that was opened with one credential must not serve another.
    shown.print.hash(&mut print);
    let fingerprint = print.finish();
    time::Duration::from(waiting.for_backend(&name)).hash(&mut print);
    format!("{breaking:?}").hash(&mut print);
    let service_revision = print.finish();
    let backend = vmcp_core::Backend::new(&name);
    let breaker = breaking.map(|settings| CircuitHandle::new(backend.clone(), settings));
    let outgoing = Outgoing {
        telemetry: None,
        breaker,
        credentials: shown.credentials,
        headers,
        timeouts: timeouts.clone(),
        client,
    };
    let message_timeout = timeouts.limit(Some(&backend));
    Ok(Unreached {
        backend,
        uri,
        transport,
        catalog: shown.catalog,
        advice: refusing.advice(),
        message_timeout,
        fingerprint,
        service_revision,
        outgoing,
    })
}

fn spoken(transport: Spoken) -> Transport {
    match transport {
        Spoken::Sse => Transport::Sse,
        Spoken::StreamableHttp => Transport::StreamableHttp,
    }
}

/// Builds the connection target: address, trust anchors and redaction.
fn target(url: &BackendUrl, kind: BackendKind, print: &mut DefaultHasher) -> Target {
    // The operator configures backends, usually on private addresses.
    let mut target = Target::allowing_private_addresses();
    if let Some(origin) = url.hidden_origin() {
        target = target.with_display_origin(origin);
    }
    if let BackendKind::Entry { ca_bundle_path: Some(path) } = kind {
        // A bundle renewed under the same path changes the fingerprint.
        std::fs::read(path.as_path()).unwrap_or_default().hash(print);
        target = target.with_ca_bundle(path.as_path());
    }
    target
}

/// Builds the timeout layer from the default and the timeouts per backend.
fn layer(waiting: &Timeouts) -> TimeoutLayer {
    let Timeouts { default, per_workload } = waiting;
    let of = |(name, time): (&String, &vmcp_config::Duration)| {
        (vmcp_core::Backend::new(name), (*time).into())
    };
    TimeoutLayer::new((*default).into())
        .per_backend(per_workload.iter().map(of).collect::<HashMap<_, _>>())
}

fn refused(index: usize, url: &BackendUrl, error: &EgressConfigError) -> ConfigError {
    match error {
        EgressConfigError::CaBundleEmpty { path }
        | EgressConfigError::CaBundleInvalid { path, .. }
        | EgressConfigError::CaBundleUnreadable { path, .. } => {
            let allowed = format!("a readable file of PEM certificates ({error})");
            config_error(index, "caBundlePath", path.display().to_string(), allowed)
        }
        EgressConfigError::NoHost
        | EgressConfigError::Scheme { .. }
        | EgressConfigError::UserInfo => {
            config_error(index, "url", shown_url(url), format!("a usable URL ({error})"))
        }
    }
}

fn config_error(index: usize, key: &str, found: String, allowed: String) -> ConfigError {
    ConfigError::new(format!("backends[{index}].{key}"), found, allowed)
}

/// Describes a backend's configuration for `/status`.
pub(super) fn about(
    backend: &Backend,
    group: &str,
    strategies: &Strategies,
) -> (String, AboutBackend) {
    let mut metadata = backend.metadata.clone();
    metadata.insert("group".to_owned(), group.to_owned());
    let entry = matches!(backend.kind, BackendKind::Entry { .. });
    let auth = strategies.of(&backend.name).name;
    (backend.name.clone(), AboutBackend { url: shown_url(&backend.url), entry, auth, metadata })
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
