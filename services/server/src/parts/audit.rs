//! `audit`: audit events of client requests, and their destination.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::Access;
use vmcp_audit::{Auditor, EventFilter};
use vmcp_audit_log::{FileSink, Log, OpenError, Overflow, StdoutSink};
use vmcp_config::{Audit, ConfigError, EventType};

/// Settings of audit recording.
#[derive(Clone, Debug)]
pub struct AuditParts {
    events: vmcp_audit::AuditSettings,
    log: vmcp_audit_log::Settings,
    /// `None` is the standard output.
    file: Option<PathBuf>,
    /// Configuration that this value was built from.
    source_config: Audit,
}

/// Audit options from the command line.
#[derive(Clone, Copy, Debug, Default)]
pub struct AuditOptions {
    /// Number of trusted reverse proxies; selects the client address from `X-Forwarded-For`. The address is the source
    /// of audit events and of requests to the authorization server. With 0, the peer address is used.
    pub trusted_proxies: usize,
    /// Handling of events that exceed the capacity: delay responses, or drop and count events.
    pub overflow: Overflow,
}

/// Running audit recording. Ends with [`Log::close`].
#[derive(Clone, Debug)]
pub(crate) struct AuditPipeline {
    pub(crate) auditor: Auditor,
    pub(crate) log: Log,
    source_config: Audit,
}

/// Converts the section into settings, and adds an error if events cannot be recorded. `None` disables recording.
pub(super) fn convert(audit: Audit, errors: &mut Vec<ConfigError>) -> Option<AuditParts> {
    let source_config = audit.clone();
    let Audit {
        enabled,
        component,
        detect_application_errors,
        event_types,
        exclude_event_types,
        include_request_data,
        include_response_data,
        log_file,
        max_data_size,
    } = audit;
    let events = vmcp_audit::AuditSettings {
        events: EventFilter::new(&named(&event_types), &named(&exclude_event_types)),
        detect_application_errors,
        include_request_data,
        include_response_data,
        max_data_size: usize::try_from(max_data_size).expect("usize has at least 32 bits"),
        // A command-line option sets the number of proxies.
        trusted_proxies: 0,
    };
    let log = vmcp_audit_log::Settings {
        component: component.map(Into::into),
        ..vmcp_audit_log::Settings::default()
    };
    if !enabled {
        return None;
    }
    let file: Option<PathBuf> = log_file.map(Into::into);
    let error = file.as_deref().and_then(|file| {
        let found = format!("{}: {}", file.display(), unwritable(file).err()?);
        let allowed = "a file that can be appended to, or made in a folder that is there";
        Some(ConfigError::new("audit.logFile", found, allowed))
    });
    errors.extend(error);
    Some(AuditParts { events, log, file, source_config })
}

/// Checks without a side effect that a file can be appended to or created.
fn unwritable(file: &Path) -> Result<(), String> {
    let access = |path: &Path, access| {
        rustix::fs::access(path, access).map_err(|error| io::Error::from(error).to_string())
    };
    match file.metadata() {
        Ok(found) if found.is_dir() => Err("it is a folder".to_owned()),
        Ok(_) => access(file, Access::WRITE_OK),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new("."));
            let reason = access(folder, Access::WRITE_OK | Access::EXEC_OK);
            reason.map_err(|reason| format!("its folder: {reason}"))
        }
        Err(error) => Err(error.to_string()),
    }
}

fn named(kinds: &[EventType]) -> Vec<vmcp_audit::EventType> {
    // A test checks that both crates use the same names.
    let parse = |kind: &EventType| kind.as_str().parse().expect("both crates have the same names");
    kinds.iter().map(parse).collect()
}

impl AuditParts {
    /// Starts recording.
    ///
    /// # Errors
    /// Returns an error if the file can be neither opened nor created.
    pub(crate) fn start(self, options: AuditOptions) -> Result<AuditPipeline, OpenError> {
        let Self { events, log, file, source_config } = self;
        let AuditOptions { trusted_proxies, overflow } = options;
        let events = vmcp_audit::AuditSettings { trusted_proxies, ..events };
        let log = vmcp_audit_log::Settings { overflow, ..log };
        let log = if let Some(path) = file {
            let (log, writer) = Log::new(log, FileSink::open(path)?);
            tokio::spawn(writer.run());
            log
        } else {
            let (log, writer) = Log::new(log, StdoutSink);
            tokio::spawn(writer.run());
            log
        };
        Ok(AuditPipeline { auditor: Auditor::new(events, log.clone()), log, source_config })
    }

    /// Returns `true` if `pipeline` was built from the same configuration.
    pub(crate) fn is_same_config(&self, pipeline: &AuditPipeline) -> bool {
        self.source_config == pipeline.source_config
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_maximum_equals_layer_data_limit() {
        let schema = vmcp_config::schema();
        let most = &schema["$defs"]["Audit"]["properties"]["maxDataSize"]["maximum"];
        assert_eq!(*most, vmcp_audit::MAX_DATA_SIZE);
    }

    #[test]
    fn checks_log_file_without_creating_file() {
        let folder = std::env::temp_dir();
        let fresh = folder.join(format!("vmcp-audit-{}", std::process::id()));
        assert_eq!(unwritable(&fresh), Ok(()));
        assert!(!fresh.exists());
        assert_eq!(unwritable(Path::new("/dev/null")), Ok(()));
        assert!(unwritable(&folder).unwrap_err().contains("a folder"));
        assert!(unwritable(&fresh.join("missing")).unwrap_err().contains("its folder"));
    }

    #[test]
    fn every_event_type_has_configuration_name() {
        for kind in vmcp_audit::EventType::ALL {
            let text = format!(
                "name: x\nincomingAuth: {{type: anonymous}}\naudit: {{enabled: true, eventTypes: [{}]}}\n",
                kind.name()
            );
            let file = vmcp_config::File::parse(&text, vmcp_config::Format::Yaml).unwrap();
            let parts = convert(file.audit, &mut Vec::new()).unwrap();
            for other in vmcp_audit::EventType::ALL {
                assert_eq!(parts.events.events.contains(*other), other == kind, "{other:?}");
            }
        }
    }
}
