//! From configuration to the parts of the server. Every conversion takes its section apart without
//! `..`, so that a new field fails to compile until it is wired.

mod aggregation;
mod backends;
mod unsupported;

use std::collections::HashMap;

use vmcp_aggregate::settings::{PartialFailure, Settings};
use vmcp_config::{
    CircuitBreaker, FailureHandling, File, LogLevel, Mistake, Operational, PartialFailureMode,
    Timeouts,
};
use vmcp_core::Backend;
use vmcp_egress::Egress;
use vmcp_timeout::TimeoutLayer;

pub use self::unsupported::Unsupported;

/// What the server is made of, for one configuration.
#[derive(Debug)]
pub struct Parts {
    /// For the aggregating service.
    pub settings: Settings,
    /// What is shown of the configuration.
    pub about: About,
    /// The level of the log.
    pub debug: bool,
}

/// What `/status` and `inspect` show of the configuration as it is.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The server's name.
    pub name: String,
    /// The group of the backends.
    pub group: String,
    /// `metadata` of the server.
    pub metadata: std::collections::BTreeMap<String, String>,
    /// By backend: whether it is an entry, and its metadata with the group in it.
    pub backends: std::collections::BTreeMap<String, AboutBackend>,
}

/// What is shown of one backend's configuration.
#[derive(Clone, Debug, Default)]
pub struct AboutBackend {
    /// Its endpoint, without credentials and query.
    pub url: String,
    /// Whether it is of `type: entry`.
    pub entry: bool,
    /// Its metadata, with `group` set by the server.
    pub metadata: std::collections::BTreeMap<String, String>,
}

/// Why no server can be made of a configuration.
#[derive(Debug, thiserror::Error)]
pub enum PartsError {
    /// Sections that nothing in this version would read.
    #[error("{}", unsupported::describe(.0))]
    Unsupported(Vec<Unsupported>),
    /// Values that only turned out to be unusable now, such as a file that cannot be read.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Mistakes(Vec<Mistake>),
}

impl Parts {
    /// The parts that `file` asks for.
    ///
    /// # Errors
    /// All sections without a runtime, or all values that cannot be used.
    pub fn new(file: File, egress: &Egress) -> Result<Self, PartsError> {
        let refused = unsupported::find(&file);
        if !refused.is_empty() {
            return Err(PartsError::Unsupported(refused));
        }
        let group = file.group().to_owned();
        let File {
            name,
            group_ref: _,
            metadata,
            aggregation,
            audit: _,
            backends,
            composite_tools: _,
            incoming_auth: _,
            outgoing_auth: _,
            operational,
            optimizer: _,
            session_storage: _,
            telemetry: _,
            auth_server: _,
        } = file;
        let Operational { log_level, timeouts, failure_handling } = operational;
        let (timeouts, partial_failure) = (waiting(timeouts), patience(&failure_handling));
        let about = About {
            name: name.clone(),
            group: group.clone(),
            metadata,
            backends: backends.iter().map(|backend| backends::about(backend, &group)).collect(),
        };
        let settings = Settings {
            name,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            backends: backends::settings(backends, &timeouts, egress)
                .map_err(PartsError::Mistakes)?,
            rules: aggregation::rules(aggregation),
            partial_failure,
        };
        Ok(Self { settings, about, debug: matches!(log_level, Some(LogLevel::Debug)) })
    }
}

fn waiting(timeouts: Timeouts) -> TimeoutLayer {
    let Timeouts { default, per_workload } = timeouts;
    let per_backend: HashMap<_, _> =
        per_workload.into_iter().map(|(name, time)| (Backend::new(&name), time.into())).collect();
    TimeoutLayer::new(default.into()).per_backend(per_backend)
}

fn patience(failures: &FailureHandling) -> PartialFailure {
    let FailureHandling {
        health_check_interval: _,
        health_check_timeout: _,
        unhealthy_threshold: _,
        partial_failure_mode,
        status_reporting_interval: _,
        circuit_breaker: CircuitBreaker { enabled: _, failure_threshold: _, timeout: _ },
    } = failures;
    match partial_failure_mode {
        PartialFailureMode::Fail => PartialFailure::Fail,
        PartialFailureMode::BestEffort => PartialFailure::BestEffort,
    }
}
