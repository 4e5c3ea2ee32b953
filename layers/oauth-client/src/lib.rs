#![doc = include_str!("../README.md")]

pub mod introspection;
pub mod token_endpoint;
