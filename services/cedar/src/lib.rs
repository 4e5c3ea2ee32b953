#![doc = include_str!("../README.md")]

mod arguments;
mod backends;
mod caller_view;
mod cedar;
mod compiled_policies;
mod dependencies;
mod evaluator;
mod explain;
mod immutable_cache;
mod model;
mod name_check;
mod names;
mod nesting;
mod policy_error;
mod policy_slice;
mod prepared_caller;
mod rules;
mod schema;
mod subject;
mod upstream;
mod value;

pub use self::{
    backends::NamedBackend,
    cedar::Cedar,
    explain::{DecidingPolicy, Explanation},
    name_check::NamedItem,
    policy_error::{PolicyError, PolicyErrors},
};
