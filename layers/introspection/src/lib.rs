#![doc = include_str!("../README.md")]

mod fault;
mod introspection;

pub use self::{
    fault::{EndpointError, IntrospectionError, Outage},
    introspection::{Introspected, Introspection},
};
