#![doc = include_str!("../README.md")]

mod arguments;
mod backends;
mod caller_view;
mod cedar;
mod dependencies;
mod explain;
mod model;
mod nesting;
mod policy_error;
mod policy_slice;
mod prepared_caller;
mod rules;
mod schema;
mod upstream;
mod value;

pub use self::{
    backends::NamedBackend,
    cedar::Cedar,
    explain::{DecidingPolicy, Explanation},
    policy_error::{PolicyError, PolicyErrors},
    schema::NamedItem,
};
