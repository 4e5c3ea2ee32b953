#![doc = include_str!("../README.md")]

mod auditor;
mod body;
mod capture;
mod delegation;
mod detect;
mod event;
mod future;
mod json;
mod kind;
mod layer;
mod line;
mod message;
mod pending;
mod queue;
mod redact;
mod service;
mod sink;
mod source;
mod time;
mod writer;

pub use self::{
    auditor::{Auditor, Counts, Overflow, Settings},
    body::ResponseBody,
    event::{Event, Fact},
    future::ResponseFuture,
    kind::{EventType, Outcome, Selection, UnknownEventType},
    layer::AuditLayer,
    service::Audit,
    sink::{FileSink, OpenError, Sink, Stdout},
    writer::Writer,
};
