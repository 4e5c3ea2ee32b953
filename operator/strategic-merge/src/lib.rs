#![doc = include_str!("../README.md")]

mod error;
mod merge;
mod object_type;

pub use self::{
    error::{PatchError, PatchErrorKind},
    object_type::ObjectType,
};
