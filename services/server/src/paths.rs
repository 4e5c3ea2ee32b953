//! Paths of the server, apart from those of the authorization server.

use vmcp_legacy_sse::{MESSAGES_PATH, STREAM_PATH};

/// Paths of health probes.
pub(crate) const PROBE_PATHS: [&str; 4] = ["/livez", "/readyz", "/health", "/ping"];

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
        || path.starts_with("/.well-known/oauth-protected-resource")
}
