#![doc = include_str!("../README.md")]

mod delegation;
mod ids;
mod json;
mod line;
mod log;
mod queue;
mod redact;
mod sink;
mod time;
mod writer;

pub use self::{
    log::{Counts, Log, LogTail, Overflow, Settings},
    sink::{FileSink, OpenError, Sink, Stdout},
    writer::Writer,
};
