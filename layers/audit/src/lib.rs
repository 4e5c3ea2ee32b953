#![doc = include_str!("../README.md")]

mod auditor;
mod body;
mod capture;
mod detector;
mod event;
mod event_type;
mod future;
mod layer;
mod message;
mod pending_event;
mod service;
mod sink;
mod source;

pub use vmcp_core::{Backend, Clock, Identity};

pub use self::{
    auditor::{AuditSettings, Auditor, MAX_DATA_SIZE},
    body::ResponseBody,
    event::{
        BoundedText, ClientInfo, Event, EventDetails, EventSource, EventTarget, FieldValue,
        PayloadExcerpt,
    },
    event_type::{EventFilter, EventType, Outcome, UnknownEventTypeError},
    future::ResponseFuture,
    layer::AuditLayer,
    service::Audit,
    sink::{AuditSink, Capacity},
    source::forwarded_for,
};
