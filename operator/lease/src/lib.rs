#![doc = include_str!("../README.md")]

mod candidate;
mod environment;
mod message;

pub use self::{
    candidate::{Candidate, LostLeadership, Timing},
    environment::Environment,
    message::message,
};
