#![doc = include_str!("../README.md")]

mod arguments;
mod backends;
mod cedar;
mod explain;
mod fault;
mod model;
mod nesting;
mod prepared;
mod reads;
mod rules;
mod schema;
mod slice;
mod upstream;
mod value;
mod view;

pub use self::{
    backends::NamedBackend,
    cedar::Cedar,
    explain::{Deciding, Explanation},
    fault::{Fault, PolicyFaults},
    schema::NamedItem,
};
