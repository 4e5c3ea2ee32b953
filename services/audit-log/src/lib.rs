#![doc = include_str!("../README.md")]

mod delegation;
mod event_ids;
mod json;
mod line;
mod log;
mod queue;
mod redact;
mod rfc3339;
mod sink;
mod writer;

pub use self::{
    log::{Counts, Log, LogHandle, Overflow, Settings},
    sink::{FileSink, LineSink, OpenError, StdoutSink},
    writer::Writer,
};
