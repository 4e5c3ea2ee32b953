#![doc = include_str!("../README.md")]

mod event;
mod event_type;
mod sink;

pub use self::{
    event::{
        BoundedText, ClientInfo, Event, EventDetails, EventSource, EventTarget, FieldValue,
        PayloadExcerpt,
    },
    event_type::{EventFilter, EventType, Outcome, UnknownEventTypeError},
    sink::{AuditSink, Capacity},
};
