#![doc = include_str!("../README.md")]

mod context;
mod propagator;

pub use self::{
    context::TraceContext,
    propagator::{HeaderPropagation, MetaPropagation, Propagator},
};
