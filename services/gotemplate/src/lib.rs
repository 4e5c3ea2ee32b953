#![doc = include_str!("../README.md")]

mod error;
mod limits;
mod paths;
mod template;
mod value;

pub use self::{
    error::{ParseError, RenderError, RenderErrorKind},
    limits::Limits,
    paths::{Access, Path, Segment},
    template::Template,
    value::Value,
};
