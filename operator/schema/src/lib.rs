#![doc = include_str!("../README.md")]

mod cel;
mod defaults;
mod field_error;
mod lists;
mod prune;
mod schema;
mod validate;

pub use field_error::{FieldError, FieldErrorKind};
pub use schema::{AdditionalProperties, ListType, MapType, Schema, SchemaError, Validation};
