//! Members of the group: the backends that they are, or the reasons for which they are not.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};
use vmcp_config::{
    Backend, BackendKind, EnvName, FilePath, Headers, Transport,
    backend::{BackendUrl, ResourceDocument},
    from_json,
};

use super::{
    LeftOut, LeftOutReason, Member, SecretSource, SourceKind,
    converter::{Converter, describe_all, env_name, file_path, secret},
    remote_url::check_remote_url,
    strategy::filled,
};
use crate::{
    CaBundleRef, ConfigMapKeyRef, EntryPhase, EntryValid, HeaderForward, HeaderFromSecret,
    MCPRemoteProxy, MCPServer, MCPServerEntry, MCPServerEntrySpec, RemoteTransport,
    ServerTransport,
    condition::{ConditionReason as _, ConditionStatus},
};

/// Prefixes of annotations that belong to Kubernetes and not to the backend.
const FOREIGN_ANNOTATIONS: [&str; 4] =
    ["kubectl.kubernetes.io/", "kubernetes.io/", "deployment.kubernetes.io/", "k8s.io/"];

/// Key of a CA bundle in a ConfigMap, if the reference names none.
const CA_KEY: &str = "ca.crt";

/// Overrides of the members by `spec.config.backends`, by name.
pub(super) type Overrides<'a> = BTreeMap<&'a str, &'a Backend<ResourceDocument>>;

/// Reason for which a member is not a backend.
pub(super) type Obstacle = (LeftOutReason, String);

/// Separates the members that are backends by name from those that are not.
pub(super) fn candidates(members: &[Member]) -> (Vec<&Member>, Vec<LeftOut>) {
    let mut sorted: Vec<&Member> = members.iter().collect();
    sorted.sort_by_key(|member| (member.name(), member.kind()));
    let mut candidates: Vec<&Member> = Vec::new();
    let mut left_out = Vec::new();
    for member in sorted {
        if member.metadata().deletion_timestamp.is_some() {
            let message = "the resource is being deleted".to_owned();
            left_out.push(LeftOut::new(member, LeftOutReason::Deleting, message));
            continue;
        }
        match candidates.last() {
            Some(winner) if winner.name() == member.name() => {
                let message = format!(
                    "{} {} has the same name and comes first; rename one",
                    winner.kind().as_str(),
                    winner.name()
                );
                left_out.push(LeftOut::new(member, LeftOutReason::DuplicateName, message));
            }
            Some(_) | None => candidates.push(member),
        }
    }
    (candidates, left_out)
}

/// Facts about a member that its backend is made of.
struct Endpoint<'a> {
    url: Option<&'a str>,
    transport: Transport,
    kind: BackendKind,
    headers: BTreeMap<String, Value>,
    variables: BTreeSet<EnvName>,
}

impl Converter<'_> {
    /// Converts a member to a backend, and returns the variables that its headers read.
    pub(super) fn backend(
        &mut self,
        member: &Member,
        overrides: &Overrides<'_>,
        is_discovered: bool,
    ) -> Result<(Backend, BTreeSet<EnvName>), Obstacle> {
        let Endpoint { url, mut transport, mut kind, headers, variables } = match member {
            Member::Server(server) => server_endpoint(server),
            Member::Proxy(proxy) => proxy_endpoint(proxy),
            Member::Entry(entry) => self.entry_endpoint(entry)?,
        };
        let mut metadata =
            if is_discovered { discovered_metadata(member) } else { BTreeMap::new() };
        let mut url = url.map(backend_url);
        if let Some(found) = overrides.get(member.name()) {
            let Backend {
                name: _,
                url: own_url,
                transport: own_transport,
                kind: own_kind,
                headers: None | Some(_),
                metadata: own_metadata,
            } = *found;
            url = Some(backend_url(own_url.as_str()));
            transport = *own_transport;
            kind = overridden(kind, own_kind);
            metadata.extend(own_metadata.clone());
        }
        let url = url.unwrap_or_else(|| {
            let message = "the status of the resource has no URL yet".to_owned();
            Err((LeftOutReason::UrlUnknown, message))
        })?;
        let headers: Headers = from_json(&json!(headers)).map_err(|errors| {
            let message = format!("spec.headerForward: {}", describe_all(&errors));
            (LeftOutReason::BackendInvalid, message)
        })?;
        let name = member.name().to_owned();
        Ok((Backend { name, url, transport, kind, headers, metadata }, variables))
    }

    fn entry_endpoint<'e>(&mut self, entry: &'e MCPServerEntry) -> Result<Endpoint<'e>, Obstacle> {
        let MCPServerEntrySpec {
            remote_url,
            transport: remote_transport,
            // The group lists its members, and the caller resolves credentials.
            group_ref: _,
            external_auth_config_ref: _,
            allow_private_endpoint,
            header_forward,
            ca_bundle_ref,
        } = &entry.spec;
        check_phase(entry)?;
        check_remote_url(remote_url, *allow_private_endpoint).map_err(|message| {
            (LeftOutReason::EntryInvalid, format!("spec.remoteUrl: {message}"))
        })?;
        let name = entry.metadata.name.as_deref().unwrap_or_default();
        let ca_bundle_path = self.ca_bundle(name, ca_bundle_ref.as_ref())?;
        let (headers, variables) = self.headers(name, header_forward.as_ref())?;
        Ok(Endpoint {
            url: Some(remote_url),
            transport: transport(*remote_transport),
            kind: BackendKind::Entry {
                ca_bundle_path,
                allow_private_endpoint: Some(*allow_private_endpoint),
            },
            headers,
            variables,
        })
    }

    fn ca_bundle(
        &mut self,
        entry: &str,
        reference: Option<&CaBundleRef>,
    ) -> Result<Option<FilePath>, Obstacle> {
        let Some(CaBundleRef { config_map_ref: Some(reference) }) = reference else {
            return Ok(None);
        };
        let ConfigMapKeyRef { name, key, optional } = reference;
        let key = filled(Some(key)).unwrap_or(CA_KEY);
        let source = SecretSource::new(SourceKind::ConfigMap, name, key);
        let path = format!("MCPServerEntry/{entry}: spec.caBundleRef.configMapRef");
        match self.source(source, &path) {
            Ok(file) => Ok(Some(file_path(&file))),
            Err(_) if *optional == Some(true) => Ok(None),
            Err(missing) => Err((LeftOutReason::SecretPending, missing.to_string())),
        }
    }

    fn headers(
        &mut self,
        entry: &str,
        forward: Option<&HeaderForward>,
    ) -> Result<(BTreeMap<String, Value>, BTreeSet<EnvName>), Obstacle> {
        let (mut headers, mut variables) = (BTreeMap::new(), BTreeSet::new());
        let Some(forward) = forward else { return Ok((headers, variables)) };
        let HeaderForward { add_plaintext_headers, add_headers_from_secret } = forward;
        for (name, value) in add_plaintext_headers {
            headers.insert(name.clone(), Value::from(value.replace("${", "$${")));
        }
        let mut missing = Vec::new();
        for (index, header) in add_headers_from_secret.iter().enumerate() {
            let HeaderFromSecret { header_name, value_secret_ref } = header;
            let path = format!(
                "MCPServerEntry/{entry}: spec.headerForward.addHeadersFromSecret[{index}].valueSecretRef"
            );
            let file = match self.source(secret(value_secret_ref), &path) {
                Ok(file) => file,
                Err(error) => {
                    missing.push(error.to_string());
                    continue;
                }
            };
            if headers.insert(header_name.clone(), Value::from(format!("${{{file}}}"))).is_some() {
                let message = format!("spec.headerForward names the header {header_name} twice");
                return Err((LeftOutReason::BackendInvalid, message));
            }
            variables.insert(env_name(&file));
        }
        if missing.is_empty() {
            Ok((headers, variables))
        } else {
            Err((LeftOutReason::SecretPending, missing.join("; ")))
        }
    }
}

fn server_endpoint(server: &MCPServer) -> Endpoint<'_> {
    let transport = match server.spec.transport {
        ServerTransport::Stdio => transport(server.spec.proxy_mode),
        ServerTransport::StreamableHttp => Transport::StreamableHttp,
        ServerTransport::Sse => Transport::Sse,
    };
    let url = server.status.as_ref().and_then(|status| filled(status.url.as_deref()));
    workload(url, transport)
}

fn proxy_endpoint(proxy: &MCPRemoteProxy) -> Endpoint<'_> {
    let url = proxy.status.as_ref().and_then(|status| filled(status.url.as_deref()));
    workload(url, transport(proxy.spec.transport))
}

fn workload(url: Option<&str>, transport: Transport) -> Endpoint<'_> {
    let (headers, variables) = (BTreeMap::new(), BTreeSet::new());
    Endpoint { url, transport, kind: BackendKind::Workload, headers, variables }
}

fn transport(transport: RemoteTransport) -> Transport {
    match transport {
        RemoteTransport::Sse => Transport::Sse,
        RemoteTransport::StreamableHttp => Transport::StreamableHttp,
    }
}

/// Returns the kind of a member with that of its entry in the resource. Neither permits addresses that the other does not
/// permit.
fn overridden(kind: BackendKind, own: &BackendKind) -> BackendKind {
    match (kind, own) {
        (kind, BackendKind::Workload) => kind,
        (BackendKind::Workload, own) => own.clone(),
        (
            BackendKind::Entry { ca_bundle_path, allow_private_endpoint },
            BackendKind::Entry { ca_bundle_path: own_path, allow_private_endpoint: own_permits },
        ) => BackendKind::Entry {
            ca_bundle_path: own_path.clone().or(ca_bundle_path),
            allow_private_endpoint: narrower(allow_private_endpoint, *own_permits),
        },
    }
}

/// Returns the one of two permissions that fewer addresses have. Absent permits all.
fn narrower(permission: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (permission, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), _) | (_, Some(true)) => Some(true),
        (None, None) => None,
    }
}

/// Returns an error unless the entry's controller reports that the entry is valid.
fn check_phase(entry: &MCPServerEntry) -> Result<(), Obstacle> {
    let status = entry.status.as_ref();
    let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let message = || {
        let is_bad = |condition: &&Condition| condition.status == ConditionStatus::False.as_str();
        // That of the entry as a whole has all messages. While the entry waits, it is True.
        let valid = conditions.iter().find(|condition| condition.type_ == EntryValid::TYPE);
        let bad = valid.filter(is_bad).or_else(|| conditions.iter().find(is_bad));
        bad.map(|condition| condition.message.clone()).filter(|message| !message.is_empty())
    };
    match status.map(|status| status.phase).unwrap_or_default() {
        EntryPhase::Valid => Ok(()),
        EntryPhase::Pending => {
            let message = message().unwrap_or_else(|| "the entry was not checked yet".to_owned());
            Err((LeftOutReason::EntryPending, message))
        }
        EntryPhase::Failed => {
            let message =
                message().unwrap_or_else(|| "the phase of the entry is Failed".to_owned());
            Err((LeftOutReason::EntryInvalid, message))
        }
    }
}

/// Reads the URL of a backend. In a configuration, `${` would begin a placeholder.
fn backend_url(url: &str) -> Result<BackendUrl, Obstacle> {
    from_json(&Value::from(url.replace("${", "$%7B"))).map_err(|errors| {
        (LeftOutReason::BackendInvalid, format!("the URL is invalid: {}", describe_all(&errors)))
    })
}

/// Returns what is known about a member in the cluster, as free-form data of the backend.
fn discovered_metadata(member: &Member) -> BTreeMap<String, String> {
    let annotations = member.metadata().annotations.iter().flatten();
    let is_foreign = |key: &str| FOREIGN_ANNOTATIONS.iter().any(|prefix| key.starts_with(prefix));
    let mut metadata: BTreeMap<String, String> = annotations
        .filter(|(key, _)| !is_foreign(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let (kind, remote_url) = match member {
        Member::Server(_) => ("mcp_server", None),
        Member::Proxy(proxy) => ("remote_proxy", Some(&proxy.spec.remote_url)),
        Member::Entry(entry) => ("server_entry", Some(&entry.spec.remote_url)),
    };
    metadata.insert("workload_type".to_owned(), kind.to_owned());
    if let Some(namespace) = &member.metadata().namespace {
        metadata.insert("namespace".to_owned(), namespace.clone());
    }
    if let Some(url) = remote_url {
        metadata.insert("remote_url".to_owned(), url.clone());
    }
    metadata
}
