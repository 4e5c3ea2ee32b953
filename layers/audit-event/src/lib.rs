#![doc = include_str!("../README.md")]

mod event;
mod kind;
mod record;

pub use self::{
    event::{Client, Data, Details, Event, Fact, Source, Target, Text},
    kind::{EventType, Outcome, Selection, UnknownEventType},
    record::{Record, Room},
};
