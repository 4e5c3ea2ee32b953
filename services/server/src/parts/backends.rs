//! `backends`: what reaches each of them, as far as configuration says.

use std::hash::{DefaultHasher, Hash, Hasher};

use http::Uri;
use vmcp_aggregate::settings::{BackendSettings, Transport};
use vmcp_config::{Backend, BackendKind, Mistake, Transport as Spoken};
use vmcp_egress::{Egress, Target};
use vmcp_timeout::TimeoutLayer;

use super::AboutBackend;
use crate::stack;

/// All backends, or what is wrong with any.
pub(super) fn settings(
    backends: Vec<Backend>,
    timeouts: &TimeoutLayer,
    egress: &Egress,
) -> Result<Vec<BackendSettings>, Vec<Mistake>> {
    let mut ready = Vec::with_capacity(backends.len());
    let mut mistakes = Vec::new();
    for (index, backend) in backends.into_iter().enumerate() {
        match one(backend, timeouts, egress, index) {
            Ok(settings) => ready.push(settings),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    if mistakes.is_empty() { Ok(ready) } else { Err(mistakes) }
}

fn one(
    backend: Backend,
    timeouts: &TimeoutLayer,
    egress: &Egress,
    index: usize,
) -> Result<BackendSettings, Mistake> {
    let mistake = |key: &str, found: String, allowed: String| Mistake {
        path: format!("backends[{index}].{key}"),
        line: None,
        found,
        allowed,
        suggestion: None,
    };
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
    let client = egress
        .client(&url, target)
        .map_err(|error| mistake("url", url.to_string(), error.to_string()))?;
    let uri: Uri = url
        .as_str()
        .parse()
        .map_err(|error| mistake("url", url.to_string(), format!("a usable URL ({error})")))?;
    let transport = match transport {
        Spoken::Sse => Transport::Sse,
        Spoken::StreamableHttp => Transport::StreamableHttp,
    };
    (transport, format!("{timeouts:?}")).hash(&mut print);
    let backend = vmcp_core::Backend::new(&name);
    let service = stack::outgoing(timeouts.clone(), client);
    Ok(BackendSettings { backend, uri, transport, service, fingerprint: print.finish() })
}

/// What is shown of a backend.
pub(super) fn about(backend: &Backend, group: &str) -> (String, AboutBackend) {
    let mut url = backend.url.clone();
    // Neither can fail for the http and https URLs that a backend has.
    _ = url.set_username("");
    _ = url.set_password(None);
    url.set_query(None);
    let mut metadata = backend.metadata.clone();
    metadata.insert("group".to_owned(), group.to_owned());
    let entry = matches!(backend.kind, BackendKind::Entry { .. });
    (backend.name.clone(), AboutBackend { url: url.to_string(), entry, metadata })
}
