#![doc = include_str!("../README.md")]

mod auditor;
mod body;
mod capture;
mod detect;
mod future;
mod layer;
mod message;
mod pending;
mod service;
mod source;

pub use vmcp_core::{Backend, Clock, Identity};

pub use vmcp_audit_event::{
    Client, Data, Details, Event, EventType, Fact, Outcome, Record, Room, Selection, Source,
    Target, Text, UnknownEventType,
};

pub use self::{
    auditor::{Auditor, MAX_DATA_SIZE, Settings},
    body::ResponseBody,
    future::ResponseFuture,
    layer::AuditLayer,
    service::Audit,
    source::forwarded_for,
};
