//! Names and addresses that follow from the name of a server.

use sha2::{Digest as _, Sha256};

use super::ClusterDefaults;

/// Port of the server's Service.
pub const SERVER_PORT: u16 = 4483;

/// Path of the MCP endpoint.
pub const MCP_PATH: &str = "/mcp";

/// Maximum length of a DNS label, and so of a Service's name and of a label's value.
const MAX_LABEL: usize = 63;

/// Returns the name of a server's Service.
#[must_use]
pub fn service_name(server: &str) -> String {
    limited_name("vmcp-", server, "", MAX_LABEL)
}

/// Returns the URL of a server's MCP endpoint within the cluster.
#[must_use]
pub fn service_url(server: &str, namespace: &str, defaults: &ClusterDefaults) -> String {
    let ClusterDefaults { domain, redis: _ } = defaults;
    let service = service_name(server);
    format!("http://{service}.{namespace}.svc.{domain}:{SERVER_PORT}{MCP_PATH}")
}

/// Returns `prefix`, `name` and `suffix` joined, at most `max` characters. A name that is too long, or that is not a DNS label
/// (a resource's name may have dots) while `max` is that of a label, is replaced by its beginning and a digest of all of it.
#[must_use]
pub fn limited_name(prefix: &str, name: &str, suffix: &str, max: usize) -> String {
    let is_label = max > MAX_LABEL || !name.contains('.');
    if is_label && prefix.len() + name.len() + suffix.len() <= max {
        return format!("{prefix}{name}{suffix}");
    }
    let digest = digest(name);
    let room = max.saturating_sub(prefix.len() + suffix.len() + digest.len() + 1);
    let beginning: String = name.chars().take(room).collect();
    let beginning = if max > MAX_LABEL { beginning } else { beginning.replace('.', "-") };
    let beginning = beginning.trim_end_matches(['-', '.']);
    format!("{prefix}{beginning}-{digest}{suffix}")
}

/// Returns the beginning of the digest of a text, in hexadecimal.
pub(super) fn digest(text: &str) -> String {
    let digest: [u8; 32] = Sha256::digest(text.as_bytes()).into();
    let beginning = digest.first_chunk().expect("the digest is longer");
    format!("{:016x}", u64::from_be_bytes(*beginning))
}
