//! Collection of the errors of a definition.

use vmcp_config::{ConfigError, nearest};

use crate::limits;

/// Errors found so far. All of them are reported at once.
#[derive(Debug, Default)]
pub(super) struct Errors(Vec<ConfigError>);

impl Errors {
    /// Reports that a value is not allowed.
    pub(super) fn reject(
        &mut self,
        path: impl Into<String>,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) {
        self.0.push(ConfigError::new(path, limits::shorten(&found.into()), allowed));
    }

    /// Reports an unknown name, with the nearest known one.
    pub(super) fn reject_name<'a>(
        &mut self,
        path: &str,
        name: &str,
        (found, allowed): (String, String),
        known: impl IntoIterator<Item = &'a str>,
    ) {
        let mut error = ConfigError::new(path, limits::shorten(&found), allowed);
        error.suggestion = nearest(name, known).map(ToOwned::to_owned);
        self.0.push(error);
    }

    pub(super) fn into_vec(self) -> Vec<ConfigError> {
        self.0
    }
}

/// Returns the path of member `key` of the object at `path`.
pub(crate) fn member(path: &str, key: &str) -> String {
    let simple = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-/".contains(c));
    if simple { format!("{path}.{key}") } else { format!("{path}[\"{}\"]", limits::shorten(key)) }
}
