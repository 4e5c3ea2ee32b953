//! `backends`: what reaches each of them, as far as configuration says.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time;

use http::Uri;
use http::uri::InvalidUri;
use url::Url;
use vmcp_aggregate::settings::Transport;
use vmcp_breaker::{Breaker, Settings as Breaking};
use vmcp_config::{Backend, BackendKind, Mistake, Timeouts, Transport as Spoken};
use vmcp_egress::{ConfigError, Egress, Target};
use vmcp_timeout::TimeoutLayer;

use super::AboutBackend;
use super::credentials::Strategies;
use super::unstacked::Unreached;
use crate::stack::Outgoing;

/// What holds for all backends.
pub(super) struct Around<'a> {
    pub(super) waiting: &'a Timeouts,
    pub(super) strategies: &'a Strategies,
    pub(super) breaking: Option<Breaking>,
    pub(super) egress: &'a Egress,
}

/// The backends that can be reached out to, and what is wrong with the others.
pub(super) fn settings(
    backends: Vec<Backend>,
    around: &Around<'_>,
) -> (Vec<Unreached>, Vec<Mistake>) {
    let timeouts = layer(around.waiting);
    let mut ready = Vec::with_capacity(backends.len());
    let mut mistakes = Vec::new();
    for (index, backend) in backends.into_iter().enumerate() {
        match one(backend, around, &timeouts, index) {
            Ok(settings) => ready.push(settings),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    (ready, mistakes)
}

fn one(
    backend: Backend,
    around: &Around<'_>,
    timeouts: &TimeoutLayer,
    index: usize,
) -> Result<Unreached, Mistake> {
    let Around { waiting, strategies, breaking, egress } = around;
    let mut print = DefaultHasher::new();
    let Backend { name, url, transport, kind, metadata: _ } = backend;
    (url.as_str(), &name).hash(&mut print);
    // Backends are the operator's own choice, and usually on private addresses.
    let mut target = Target::allowing_private_addresses();
    if let BackendKind::Entry { ca_bundle_path: Some(path) } = kind {
        // A bundle that was renewed under the same name is another one.
        std::fs::read(path.as_path()).unwrap_or_default().hash(&mut print);
        target = target.with_ca_bundle(path.as_path());
    }
    let client = egress.client(&url, target).map_err(|error| refused(index, &url, &error))?;
    let uri: Uri = url.as_str().parse().map_err(|error: InvalidUri| {
        mistake(index, "url", shown(&url), format!("a usable URL ({error})"))
    })?;
    let transport = match transport {
        Spoken::Sse => Transport::Sse,
        Spoken::StreamableHttp => Transport::StreamableHttp,
    };
    transport.hash(&mut print);
    let shown = strategies.of(&name);
    // What was opened for one credential is not for another.
    shown.print.hash(&mut print);
    let fingerprint = print.finish();
    time::Duration::from(waiting.of(&name)).hash(&mut print);
    format!("{breaking:?}").hash(&mut print);
    let tuning = print.finish();
    let backend = vmcp_core::Backend::new(&name);
    let breaker = breaking.map(|settings| Breaker::new(backend.clone(), settings));
    let outgoing = Outgoing {
        telemetry: None,
        breaker,
        credentials: shown.credentials,
        timeouts: timeouts.clone(),
        client,
    };
    let answer_within = timeouts.limit(Some(&backend));
    Ok(Unreached {
        backend,
        uri,
        transport,
        catalog: shown.catalog,
        answer_within,
        fingerprint,
        tuning,
        outgoing,
    })
}

/// One time for each backend that has its own, and one for the others.
fn layer(waiting: &Timeouts) -> TimeoutLayer {
    let Timeouts { default, per_workload } = waiting;
    let of = |(name, time): (&String, &vmcp_config::Duration)| {
        (vmcp_core::Backend::new(name), (*time).into())
    };
    TimeoutLayer::new((*default).into())
        .per_backend(per_workload.iter().map(of).collect::<HashMap<_, _>>())
}

fn refused(index: usize, url: &Url, error: &ConfigError) -> Mistake {
    match error {
        ConfigError::CaBundleEmpty { path }
        | ConfigError::CaBundleInvalid { path, .. }
        | ConfigError::CaBundleUnreadable { path, .. } => {
            let allowed = format!("a readable file of PEM certificates ({error})");
            mistake(index, "caBundlePath", path.display().to_string(), allowed)
        }
        ConfigError::NoHost | ConfigError::Scheme { .. } | ConfigError::UserInfo => {
            mistake(index, "url", shown(url), format!("a usable URL ({error})"))
        }
    }
}

fn mistake(index: usize, key: &str, found: String, allowed: String) -> Mistake {
    Mistake::new(format!("backends[{index}].{key}"), found, allowed)
}

/// What is shown of a backend.
pub(super) fn about(
    backend: &Backend,
    group: &str,
    strategies: &Strategies,
) -> (String, AboutBackend) {
    let mut metadata = backend.metadata.clone();
    metadata.insert("group".to_owned(), group.to_owned());
    let entry = matches!(backend.kind, BackendKind::Entry { .. });
    let auth = strategies.of(&backend.name).name;
    (backend.name.clone(), AboutBackend { url: shown(&backend.url), entry, auth, metadata })
}

/// A URL without what may be secret in it.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    // Neither can fail for the http and https URLs that a backend has.
    _ = url.set_username("");
    _ = url.set_password(None);
    url.set_query(None);
    url.to_string()
}
