//! Configuration file of a command.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use vmcp_config::{ConfigError, File, Warning};
use vmcp_egress::{Egress, Settings};
use vmcp_server::parts::{Environment, Parts, PartsError, UnsupportedSetting};
use vmcp_server::serve::NamedFiles;

use super::arguments::directory;
use super::output::Failure;

/// Option for the configuration file.
#[derive(Debug, Args)]
pub(crate) struct ConfigFile {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE", env = "VMCP_CONFIG", default_value = "vmcp.yaml")]
    config: PathBuf,
    /// A directory of files with the values of variables that the configuration names, such as a mounted Secret: the file
    /// with the name of a variable wins over the environment. Changed files are read again. A backend whose variable has
    /// no value is left out instead of an error.
    #[arg(long, value_name = "DIR", value_parser = directory)]
    env_dir: Option<PathBuf>,
}

/// Valid configuration file, with the components built from it.
#[derive(Debug)]
pub(crate) struct LoadedConfig {
    pub(crate) text: String,
    /// The state of the named files before they were read.
    pub(crate) named: NamedFiles,
    pub(crate) file: File,
    pub(crate) parts: Parts,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) egress: Egress,
}

/// Options of a server that its configuration depends on.
pub(crate) struct Start<'a> {
    /// Resource attributes of telemetry, besides those of the file.
    pub(crate) attributes: &'a [(String, String)],
    /// `true` for a replica of a VirtualMCPServer.
    pub(crate) is_replica: bool,
}

/// Errors of a configuration file.
#[derive(Debug, Default)]
pub(crate) struct LoadErrors {
    /// Reason why the file cannot be read or parsed.
    pub(crate) unreadable: Option<String>,
    pub(crate) errors: Vec<ConfigError>,
    /// Number of configuration errors beyond those in `errors`.
    pub(crate) more: usize,
    pub(crate) unsupported: Vec<UnsupportedSetting>,
}

impl ConfigFile {
    pub(crate) fn path(&self) -> &Path {
        &self.config
    }

    /// Returns the values of variables that the file names.
    pub(crate) fn environment(&self) -> Environment {
        self.env_dir.as_ref().map_or_else(Environment::default, Environment::with_directory)
    }

    /// Reads and checks the file and the files that it names. Starts no telemetry.
    pub(crate) fn load(&self) -> Result<LoadedConfig, LoadErrors> {
        load(self.read()?, &self.environment(), None)
    }

    fn read(&self) -> Result<String, LoadErrors> {
        let unreadable = |error: std::io::Error| {
            let path = self.config.display();
            let reason = if error.kind() == std::io::ErrorKind::NotFound {
                format!(
                    "{error}; name another with --config, or write one: vmcp init --output {path}"
                )
            } else {
                error.to_string()
            };
            LoadErrors { unreadable: Some(reason), ..LoadErrors::default() }
        };
        std::fs::read_to_string(&self.config).map_err(unreadable)
    }

    /// Loads the file like [`ConfigFile::load`], with the errors as the failure of the command.
    pub(crate) fn require(&self) -> Result<LoadedConfig, Failure> {
        self.load().map_err(|load_errors| Failure::Error(load_errors.describe(&self.config)))
    }

    /// Loads the file like [`ConfigFile::require`] for a server, and starts telemetry.
    pub(crate) fn require_started(&self, start: &Start<'_>) -> Result<LoadedConfig, Failure> {
        let environment = self.environment();
        let loaded = self.read().and_then(|text| load(text, &environment, Some(start)));
        loaded.map_err(|load_errors| Failure::Error(load_errors.describe(&self.config)))
    }
}

/// Checks the text of a file, for a server that starts or for another command.
pub(crate) fn load(
    text: String,
    environment: &Environment,
    start: Option<&Start<'_>>,
) -> Result<LoadedConfig, LoadErrors> {
    let named = NamedFiles::of(&text, environment);
    let egress = Egress::new(Settings {
        // A client's stream may occupy a connection indefinitely.
        max_connections_per_origin: 16 * 1024,
        ..Settings::default()
    });
    let builder = Parts::builder(&egress).environment(environment);
    let builder = match start {
        Some(Start { attributes, is_replica }) => {
            builder.telemetry_attributes(attributes).replica(*is_replica)
        }
        None => builder.without_telemetry(),
    };
    let (file, parts) = builder.read(&text).map_err(|error| {
        let PartsError { unsupported, errors, in_document: _, more } = error;
        LoadErrors { unreadable: None, errors, more, unsupported }
    })?;
    let mut warnings = file.warnings();
    warnings.extend(parts.warnings.iter().cloned());
    Ok(LoadedConfig { text, named, file, parts, warnings, egress })
}

impl LoadErrors {
    /// Describes the errors, one per line.
    pub(crate) fn describe(&self, path: &Path) -> String {
        let Self { unreadable, errors, more, unsupported } = self;
        let path = path.display();
        if let Some(reason) = unreadable {
            return format!("cannot read {path}: {reason}");
        }
        let errors = errors.iter().map(ToString::to_string);
        let more = (*more > 0).then(|| format!("and {more} more"));
        let unsupported = unsupported.iter().map(ToString::to_string);
        let lines: Vec<_> = errors.chain(more).chain(unsupported).collect();
        format!("{path}:\n{}", lines.join("\n"))
    }

    /// Returns the errors as JSON.
    pub(crate) fn to_json(&self) -> Value {
        let Self { unreadable, errors, more, unsupported } = self;
        json!({
            "valid": false,
            "unreadable": unreadable,
            "mistakes": errors.iter().map(config_error).collect::<Vec<_>>(),
            "moreMistakes": more,
            "unsupported": unsupported
                .iter()
                .map(|section| json!({"path": section.path, "instead": section.instead}))
                .collect::<Vec<_>>(),
        })
    }
}

fn config_error(error: &ConfigError) -> Value {
    let ConfigError { path, line, found, allowed, suggestion } = error;
    json!({
        "path": path,
        "line": line,
        "found": found,
        "allowed": allowed,
        "suggestion": suggestion,
    })
}

/// Returns a warning as JSON.
pub(crate) fn warning(warning: &Warning) -> Value {
    let Warning { path, message, suggestion } = warning;
    json!({"path": path, "message": message, "suggestion": suggestion})
}
