//! Conversion of resources to the configuration of a server.
//!
//! The operator converts a VirtualMCPServer and what it refers to with [`convert`]. A pod that discovers its backends converts
//! the members of the group with [`backends`]. All functions are pure: they read [`Inputs`] alone, and never the value of a
//! Secret.

mod aggregation;
mod auth_server;
mod authz;
mod backends;
mod checks;
mod composite_tools;
mod converter;
mod document;
mod incoming_auth;
mod inputs;
mod members;
mod optimizer;
mod output;
mod redis;
mod remote_url;
mod resource_path;
mod secret_entry;
mod session_storage;
mod shared;
mod standalone;
mod strategy;
mod telemetry;

use self::converter::Converter;
pub use self::{
    backends::AUTH_CONFIG_METADATA,
    checks::Checks,
    inputs::{Inputs, Member, MemberKind},
    output::{
        Backends, ConditionUpdate, Conversion, ConversionError, EnvironmentVariable, LeftOut,
        LeftOutReason, Warning, WarningReason,
    },
    remote_url::check_remote_url,
    secret_entry::{Available, SECRETS_PATH, SecretEntry, SecretForm, SecretSource, SourceKind},
    shared::{ResourceError, SharedResource},
};
pub use crate::cluster_defaults::{ClusterDefaults, DefaultRedis};

/// Converts a server, with all that it refers to, to the configuration that its pods read. The server's own parser accepts the
/// configuration.
///
/// A member that cannot be a backend is left out, and is not an error.
///
/// # Errors
///
/// Returns all errors, each with its path and the condition that it ends in.
pub fn convert(inputs: &Inputs) -> Result<Conversion, Vec<ConversionError>> {
    let mut converter = Converter::new(inputs);
    let draft = converter.draft();
    let conversion = draft.and_then(|draft| converter.finish(draft));
    converter.outcome(conversion)
}

/// Converts the members of a server's group to backends with their credentials and tools, as [`convert`] does for a server that
/// does not discover its backends.
///
/// # Errors
///
/// Returns the errors of `spec.config` and `spec.authServerConfig`. All others leave a backend out, or hide its tools.
pub fn backends(inputs: &Inputs) -> Result<Backends, Vec<ConversionError>> {
    let mut converter = Converter::new(inputs);
    let backends = converter.discovered_backends();
    converter.outcome(backends)
}

/// Returns the keys of Secrets and ConfigMaps that a server and the members of its group refer to, sorted by file, whether they
/// exist or not. Of a server with errors, it returns those that could be read.
#[must_use]
pub fn references(inputs: &Inputs) -> Vec<SecretEntry> {
    let mut converter = Converter::for_references(inputs);
    _ = converter.draft();
    converter.take_secrets()
}
