//! Paths of the server, apart from those of the authorization server.

use vmcp_legacy_sse::{MESSAGES_PATH, STREAM_PATH};

/// Paths of health probes.
pub(crate) const PROBE_PATHS: [&str; 4] = ["/livez", "/readyz", "/health", "/ping"];

/// Path of the caller's runs; that of a single run has its identifier behind a slash.
pub(crate) const WORKFLOWS_PATH: &str = "/api/workflows";

/// Returns `true` for the path of the caller's runs and for that of each run.
pub(crate) fn is_workflows_path(path: &str) -> bool {
    path.strip_prefix(WORKFLOWS_PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns `true` if the path is not a path of the authorization server.
pub(crate) fn is_own_path(path: &str) -> bool {
    const PATHS: [&str; 9] = [
        "/mcp",
        STREAM_PATH,
        MESSAGES_PATH,
        "/livez",
        "/health",
        "/ping",
        "/readyz",
        "/status",
        "/metrics",
    ];
    PATHS.contains(&path)
        || path == "/api/backends/health"
        || is_workflows_path(path)
        || path.starts_with("/.well-known/oauth-protected-resource")
}
