#![doc = include_str!("../README.md")]

mod budget;
mod builtin;
mod datum;
mod error;
mod evaluation_error;
mod format;
mod function;
mod lexer;
mod limits;
mod literal;
mod parser;
mod path_analysis;
mod paths;
mod render;
mod syntax;
mod template;
mod text_buffer;
mod token;
mod value;

pub use self::{
    error::{ParseError, RenderError, RenderErrorKind},
    limits::Limits,
    paths::{Access, Path, Segment},
    template::Template,
    value::Value,
};
