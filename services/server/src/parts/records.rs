//! `audit`: what is recorded of what clients did, and where.

use std::path::PathBuf;

use vmcp_audit::{Auditor, Selection};
use vmcp_audit_log::{FileSink, Log, OpenError, Overflow, Stdout};
use vmcp_config::{Audit, EventType};

/// What is recorded, and where.
#[derive(Clone, Debug)]
pub struct Records {
    events: vmcp_audit::Settings,
    log: vmcp_audit_log::Settings,
    /// `None` is the standard output.
    file: Option<PathBuf>,
    /// What all of it was made of.
    made_of: Audit,
}

/// How events are recorded, whatever the configuration says of which.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recorded {
    /// How many proxies in front are trusted to have added themselves to `X-Forwarded-For`: the address that
    /// the outermost of them saw is the source of an event, and of a request to the authorization server. With
    /// 0 it is the one at the other end.
    pub trusted_proxies: usize,
    /// Whether answers wait for room where events cannot be written as fast as they come; otherwise events
    /// are dropped and counted.
    pub overflow: Overflow,
}

/// Recording that goes on. Ends with [`Log::close`].
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) auditor: Auditor,
    pub(crate) log: Log,
    made_of: Audit,
}

/// What the section asks for; `None` is nothing.
pub(super) fn records(audit: Audit) -> Option<Records> {
    let made_of = audit.clone();
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
    let events = vmcp_audit::Settings {
        events: Selection::new(&named(&event_types), &named(&exclude_event_types)),
        detect_application_errors,
        include_request_data,
        include_response_data,
        max_data_size: usize::try_from(max_data_size).unwrap_or(usize::MAX),
        // Who is in front is for whoever starts the server to know.
        trusted_proxies: 0,
    };
    let log = vmcp_audit_log::Settings {
        component: component.map(Into::into),
        ..vmcp_audit_log::Settings::default()
    };
    enabled.then(|| Records { events, log, file: log_file.map(Into::into), made_of })
}

fn named(kinds: &[EventType]) -> Vec<vmcp_audit::EventType> {
    // The same names on both sides: a test says so.
    kinds.iter().filter_map(|kind| kind.as_str().parse().ok()).collect()
}

impl Records {
    /// Begins to record.
    ///
    /// # Errors
    /// The file can be neither opened nor made.
    pub(crate) fn start(self, recorded: Recorded) -> Result<Recording, OpenError> {
        let Self { events, log, file, made_of } = self;
        let Recorded { trusted_proxies, overflow } = recorded;
        let events = vmcp_audit::Settings { trusted_proxies, ..events };
        let log = vmcp_audit_log::Settings { overflow, ..log };
        let log = if let Some(path) = file {
            let (log, writer) = Log::new(log, FileSink::open(path)?);
            tokio::spawn(writer.run());
            log
        } else {
            let (log, writer) = Log::new(log, Stdout);
            tokio::spawn(writer.run());
            log
        };
        Ok(Recording { auditor: Auditor::new(events, log.clone()), log, made_of })
    }

    /// Whether `recording` comes of the same configuration.
    pub(crate) fn same(&self, recording: &Recording) -> bool {
        self.made_of == recording.made_of
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_event_can_be_named() {
        for kind in vmcp_audit::EventType::ALL {
            let text = format!(
                "name: x\nincomingAuth: {{type: anonymous}}\naudit: {{enabled: true, eventTypes: [{}]}}\n",
                kind.name()
            );
            let file = vmcp_config::File::parse(&text, vmcp_config::Format::Yaml).unwrap();
            let records = records(file.audit).unwrap();
            for other in vmcp_audit::EventType::ALL {
                assert_eq!(records.events.events.contains(*other), other == kind, "{other:?}");
            }
        }
    }
}
