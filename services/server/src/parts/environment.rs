//! Secrets that stand in variables of the environment.

use secrecy::SecretString;
use vmcp_config::{ConfigError, EnvName};

/// The value of an environment variable. One that is not Unicode counts as unset.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The value of the variable that stands at the path `at` of the configuration.
pub(super) fn secret(at: &str, name: &EnvName) -> Result<SecretString, ConfigError> {
    match std::env::var(name.as_str()) {
        Ok(value) if !value.is_empty() => Ok(value.into()),
        found => {
            let problem = if found.is_ok() { "empty" } else { "not set" };
            let found = format!("{name}, which is {problem}");
            Err(ConfigError::new(at, found, "a variable of the environment with a value"))
        }
    }
}
