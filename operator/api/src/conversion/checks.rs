//! Checks that need the compilers of the server.

use std::fmt;

use vmcp_config::{Cedar, CompositeTool, ConfigError, File, Strategy};

/// Checks of what the server compiles when it starts: policies, composite tools and matchers of roles. This crate has none of the
/// compilers; with these checks, a conversion also rejects what they reject.
pub trait Checks: fmt::Debug + Send + Sync {
    /// Returns the errors of policies, with paths within `authz`.
    fn policies(&self, server: &str, cedar: &Cedar) -> Vec<ConfigError>;

    /// Returns the errors of a composite tool, with paths within it.
    fn composite_tool(&self, tool: &CompositeTool) -> Vec<ConfigError>;

    /// Returns the errors of credentials for a backend, with paths within the strategy.
    fn strategy(&self, strategy: &Strategy) -> Vec<ConfigError>;

    /// Returns the errors of a configuration that its parser accepts, with paths within it.
    fn file(&self, file: &File) -> Vec<ConfigError>;
}
