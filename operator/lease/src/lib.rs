#![doc = include_str!("../README.md")]

mod candidate;
mod environment;

pub use self::{
    candidate::{Candidate, LostLeadership, Timing},
    environment::Environment,
};
