#![doc = include_str!("../README.md")]

mod auditor;
mod body;
mod capture;
mod detect;
mod event;
mod future;
mod kind;
mod layer;
mod message;
mod pending;
mod record;
mod service;
mod source;

pub use self::{
    auditor::{Auditor, Settings},
    body::ResponseBody,
    event::{Client, Data, Details, Event, Fact, Source, Target, Text},
    future::ResponseFuture,
    kind::{EventType, Outcome, Selection, UnknownEventType},
    layer::AuditLayer,
    record::{Record, Room},
    service::Audit,
};
