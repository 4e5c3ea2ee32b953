#![doc = include_str!("../README.md")]

mod auditor;
mod body;
mod capture;
mod detector;
mod future;
mod layer;
mod message;
mod pending_event;
mod service;
mod source;

pub use vmcp_core::{Backend, Clock, Identity};

pub use vmcp_audit_event::{
    AuditSink, BoundedText, Capacity, ClientInfo, Event, EventDetails, EventFilter, EventSource,
    EventTarget, EventType, FieldValue, Outcome, PayloadExcerpt, UnknownEventTypeError,
};

pub use self::{
    auditor::{AuditSettings, Auditor, MAX_DATA_SIZE},
    body::ResponseBody,
    future::ResponseFuture,
    layer::AuditLayer,
    service::Audit,
    source::forwarded_for,
};
