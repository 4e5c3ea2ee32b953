#![doc = include_str!("../README.md")]

mod arguments;
mod cedar;
mod explain;
mod fault;
mod model;
mod reads;
mod rules;
mod upstream;
mod value;
mod view;

pub use self::{
    cedar::Cedar,
    explain::{Deciding, Explanation},
    fault::{Fault, PolicyFaults},
};
