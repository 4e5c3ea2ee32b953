#![doc = include_str!("../README.md")]

mod context;
mod propagate;

pub use self::{
    context::TraceContext,
    propagate::{HeaderOnly, InMessage, Propagate},
};
