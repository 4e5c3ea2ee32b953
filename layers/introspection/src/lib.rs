#![doc = include_str!("../README.md")]

mod error;
mod introspection;

pub use self::{
    error::{EndpointError, EndpointUrlError, IntrospectionError},
    introspection::{IntrospectedToken, IntrospectionClient},
};
