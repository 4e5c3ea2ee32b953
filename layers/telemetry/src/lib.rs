#![doc = include_str!("../README.md")]

mod answer;
mod attributes;
mod body;
mod incoming;
mod link;
mod outgoing;
mod recorder;
#[cfg(test)]
mod testing;
mod watch;

pub use vmcp_core::BoxError;

pub use self::{
    attributes::Route,
    body::ResponseBody,
    incoming::{Incoming, IncomingFuture, IncomingLayer},
    outgoing::{Classify, Outgoing, OutgoingFuture, OutgoingLayer},
    recorder::{EndedSpan, Options, Recorder, Spans},
};
