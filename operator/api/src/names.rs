//! Names of the objects of a server or an embedding server, and its addresses in the cluster.
//!
//! Two of them in a namespace never have objects of one kind and name, whatever their own names are.

use sha2::{Digest as _, Sha256};

use crate::cluster_defaults::ClusterDefaults;

/// Port of the server's Service.
pub const SERVER_PORT: u16 = 4483;

/// Path of the MCP endpoint.
pub const MCP_PATH: &str = "/mcp";

/// Maximum length of a DNS label, and so of a Service's name and of a label's value.
const MAX_LABEL: usize = 63;

/// Maximum length of the name of an object whose kind does not limit it further.
const MAX_NAME: usize = 253;

/// End of the name of the headless Service of the replicas.
const PEERS: &str = "-peers";

/// Maximum length of the name of a StatefulSet: a label of its pods has it with the digest of a revision.
const MAX_STATEFUL_SET: usize = 52;

/// Characters that a name may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A DNS label has no dots.
    DnsLabel,
    /// A DNS subdomain, or the value of a label.
    Dotted,
}

/// Returns the name of a server's Service.
#[must_use]
pub fn service_name(server: &str) -> String {
    if server.ends_with(PEERS) {
        // Another server's name without this end gives the same name to the Service of its replicas.
        return digested("vmcp-", server, "", MAX_LABEL, Form::DnsLabel);
    }
    limited("vmcp-", server, "", MAX_LABEL, Form::DnsLabel)
}

/// Returns the name of the headless Service of a server's replicas.
#[must_use]
pub fn peer_service_name(server: &str) -> String {
    limited("vmcp-", server, PEERS, MAX_LABEL, Form::DnsLabel)
}

/// Returns the name of a server's Deployment. It begins the names of pods, which are host names.
#[must_use]
pub fn deployment_name(server: &str) -> String {
    limited("", server, "-vmcp", MAX_LABEL, Form::DnsLabel)
}

/// Returns the name of the ServiceAccount, Role and RoleBinding of a server.
#[must_use]
pub fn account_name(server: &str) -> String {
    limited("", server, "-vmcp", MAX_NAME, Form::Dotted)
}

/// Returns the name of the objects of a server that its spec asks for, such as its Ingress.
#[must_use]
pub fn optional_object_name(server: &str) -> String {
    limited("", server, "-vmcp", MAX_NAME, Form::Dotted)
}

/// Returns the name of the ConfigMap with a server's configuration.
#[must_use]
pub fn config_map_name(server: &str) -> String {
    limited("", server, "-vmcp-config", MAX_NAME, Form::Dotted)
}

/// Returns the name of the Secret with the keys that the replicas of a server share.
#[must_use]
pub fn seal_secret_name(server: &str) -> String {
    limited("", server, "-vmcp-seal", MAX_NAME, Form::Dotted)
}

/// Returns the name of the Secret with copies of the keys that a server refers to.
#[must_use]
pub fn owned_secret_name(server: &str) -> String {
    limited("", server, "-vmcp-secrets", MAX_NAME, Form::Dotted)
}

/// Returns the name of the Lease whose holder reports the status of a server.
#[must_use]
pub fn status_lease_name(server: &str) -> String {
    limited("", server, "-vmcp-status", MAX_NAME, Form::Dotted)
}

/// Returns the name of a server as a label's value.
#[must_use]
pub fn instance_label(server: &str) -> String {
    limited("", server, "", MAX_LABEL, Form::Dotted)
}

/// Returns the host names of a Service, the shortest first. The last one is complete.
#[must_use]
pub fn service_hosts(service: &str, namespace: &str, defaults: &ClusterDefaults) -> [String; 4] {
    let ClusterDefaults { domain, redis: _ } = defaults;
    [
        service.to_owned(),
        format!("{service}.{namespace}"),
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.{domain}"),
    ]
}

/// Returns the URL of a server's MCP endpoint within the cluster.
#[must_use]
pub fn service_url(server: &str, namespace: &str, defaults: &ClusterDefaults) -> String {
    let [.., host] = service_hosts(&service_name(server), namespace, defaults);
    format!("http://{host}:{SERVER_PORT}{MCP_PATH}")
}

/// Returns the name of an embedding server's StatefulSet. It begins the names of pods, which are host names.
#[must_use]
pub fn embedding_set_name(server: &str) -> String {
    limited("", server, "-embedding", MAX_STATEFUL_SET, Form::DnsLabel)
}

/// Returns the name of an embedding server's Service.
#[must_use]
pub fn embedding_service_name(server: &str) -> String {
    limited("embedding-", server, "", MAX_LABEL, Form::DnsLabel)
}

/// Returns the URL of an embedding server within the cluster.
#[must_use]
pub fn embedding_url(
    server: &str,
    namespace: &str,
    port: i32,
    defaults: &ClusterDefaults,
) -> String {
    let [.., host] = service_hosts(&embedding_service_name(server), namespace, defaults);
    format!("http://{host}:{port}")
}

/// Returns `prefix`, `name` and `suffix` joined. A name that is too long, that has dots where these are not permitted, or that
/// looks like such a replacement, is replaced by its beginning and a digest of all of it.
fn limited(prefix: &str, name: &str, suffix: &str, max: usize, form: Form) -> String {
    let is_permitted = form == Form::Dotted || !name.contains('.');
    let is_short = prefix.len() + name.len() + suffix.len() <= max;
    if is_permitted && is_short && !ends_in_digest(name) {
        return format!("{prefix}{name}{suffix}");
    }
    digested(prefix, name, suffix, max, form)
}

/// Returns `prefix`, the beginning and the digest of `name`, and `suffix` joined.
fn digested(prefix: &str, name: &str, suffix: &str, max: usize, form: Form) -> String {
    let digest = digest(name);
    let room = max.saturating_sub(prefix.len() + suffix.len() + digest.len() + 1);
    let beginning: String = name.chars().take(room).collect();
    let beginning = if form == Form::Dotted { beginning } else { beginning.replace('.', "-") };
    let beginning = beginning.trim_end_matches(['-', '.']);
    format!("{prefix}{beginning}-{digest}{suffix}")
}

/// Returns `true` if a name ends as one with a digest does.
fn ends_in_digest(name: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    name.rsplit_once('-').is_some_and(|(_, end)| end.len() == 16 && end.bytes().all(is_digit))
}

/// Returns the beginning of the digest of a text, in hexadecimal.
pub(crate) fn digest(text: &str) -> String {
    let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    let beginning = digest.first_chunk().expect("the digest is longer");
    format!("{:016x}", u64::from_be_bytes(*beginning))
}
