//! ConfigMap with the configuration of a server.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use k8s_openapi::api::core::v1::ConfigMap;
use sha2::{Digest as _, Sha256};
use vmcp_api::{conversion::Conversion, names::config_map_name};

use super::metadata::Owner;

/// Directory at which the ConfigMap is mounted.
pub const CONFIG_PATH: &str = "/etc/vmcp/config";

/// Key of the configuration, and name of its file.
pub const CONFIG_FILE: &str = "config.yaml";

/// Plans the ConfigMap.
pub(super) fn config_map(owner: Owner<'_>, conversion: &Conversion) -> ConfigMap {
    let data = BTreeMap::from([(CONFIG_FILE.to_owned(), conversion.yaml.clone())]);
    ConfigMap {
        metadata: owner.metadata(config_map_name(owner.name())),
        data: Some(data),
        ..ConfigMap::default()
    }
}

/// Returns the SHA-256 of the data, in hexadecimal.
pub(super) fn checksum(config_map: &ConfigMap) -> String {
    let mut hasher = Sha256::new();
    for (key, value) in config_map.data.iter().flatten() {
        // The length separates a key from its value.
        hasher.update(key.len().to_be_bytes());
        hasher.update(key);
        hasher.update(value.len().to_be_bytes());
        hasher.update(value);
    }
    let mut text = String::with_capacity(64);
    for byte in hasher.finalize() {
        // Writing to a string never fails.
        _ = write!(text, "{byte:02x}");
    }
    text
}
