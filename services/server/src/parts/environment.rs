//! Values of the variables that a configuration names: files of a directory first, then the environment of the process.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use vmcp_config::{ConfigError, EnvName};

use super::left_out::{BackendError, LeftOutReason};
use super::secret_files;

/// Values of the variables that a configuration names.
///
/// With a directory, such as a mounted Secret of Kubernetes, the file with the name of a variable wins over the variable of
/// the process. A backend whose variable has no usable value is then left out, and the others are served: the file may
/// appear later.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    directory: Option<Arc<Path>>,
}

/// Reason why a variable has no usable value.
enum Unusable {
    NotSet,
    Empty,
    /// The file is there, but is not a secret.
    File(String),
}

impl Environment {
    pub(super) const fn of_process() -> Self {
        Self { directory: None }
    }

    /// Creates an environment that reads files of `directory` first.
    #[must_use]
    pub fn with_directory(directory: impl Into<PathBuf>) -> Self {
        Self { directory: Some(directory.into().into()) }
    }

    /// Returns the directory, if there is one.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// Returns the value of a variable. One that is not Unicode counts as unset.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        match self.find(name) {
            Ok(value) => Some(value.expose_secret().to_owned()),
            Err(Unusable::Empty) => Some(String::new()),
            Err(Unusable::NotSet | Unusable::File(_)) => None,
        }
    }

    /// Returns the value of the variable that stands at the path `at` of the configuration.
    pub(super) fn secret(&self, at: &str, name: &EnvName) -> Result<SecretString, ConfigError> {
        self.find(name.as_str()).map_err(|unusable| self.error(at, name, &unusable))
    }

    /// Returns the value of the variable that stands at the path `at` of the settings of a backend.
    pub(super) fn backend_secret(
        &self,
        at: &str,
        name: &EnvName,
    ) -> Result<SecretString, BackendError> {
        self.find(name.as_str()).map_err(|unusable| {
            let (reason, message) = match &unusable {
                Unusable::NotSet | Unusable::Empty => {
                    (LeftOutReason::SecretPending, format!("secret {name} is not there yet"))
                }
                Unusable::File(problem) => {
                    (LeftOutReason::SecretInvalid, format!("secret {name}, {problem}"))
                }
            };
            self.backend_error(self.error(at, name, &unusable), reason, message)
        })
    }

    /// Returns the error of a backend's secret, which leaves the backend out if secrets are files of a directory.
    pub(super) fn backend_error(
        &self,
        error: ConfigError,
        reason: LeftOutReason,
        message: String,
    ) -> BackendError {
        match self.directory {
            Some(_) => BackendError::LeftOut(reason, message),
            None => BackendError::Config(error),
        }
    }

    fn error(&self, at: &str, name: &EnvName, unusable: &Unusable) -> ConfigError {
        let problem = match unusable {
            Unusable::NotSet => "which is not set",
            Unusable::Empty => "which is empty",
            Unusable::File(problem) => problem,
        };
        let allowed = match &self.directory {
            None => "a variable of the environment with a value".to_owned(),
            Some(directory) => {
                let directory = directory.display();
                format!("a file with a value in {directory}, or a variable of the environment")
            }
        };
        ConfigError::new(at, format!("{name}, {problem}"), allowed)
    }

    fn find(&self, name: &str) -> Result<SecretString, Unusable> {
        if let Some(directory) = &self.directory
            && let Some(value) = from_file(&directory.join(name))
        {
            return value;
        }
        match std::env::var(name) {
            Ok(value) if value.is_empty() => Err(Unusable::Empty),
            Ok(value) => Ok(value.into()),
            Err(_) => Err(Unusable::NotSet),
        }
    }
}

/// Returns the text of a file without its final line break; `None` if there is no file.
fn from_file(path: &Path) -> Option<Result<SecretString, Unusable>> {
    if let Err(error) = path.metadata()
        && error.kind() == std::io::ErrorKind::NotFound
    {
        return None;
    }
    Some(match secret_files::read(path) {
        Ok(bytes) => match String::from_utf8(bytes) {
            Ok(text) => {
                let line = text.strip_suffix('\n').unwrap_or(&text);
                let line = line.strip_suffix('\r').unwrap_or(line);
                if line.is_empty() { Err(Unusable::Empty) } else { Ok(line.into()) }
            }
            Err(_) => Err(Unusable::File("which is not text".to_owned())),
        },
        Err(secret_files::ReadError::Empty) => Err(Unusable::Empty),
        Err(error) => Err(Unusable::File(error.to_string())),
    })
}

#[cfg(test)]
mod tests;
