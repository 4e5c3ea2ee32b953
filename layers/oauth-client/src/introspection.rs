//! Client of a token introspection endpoint (RFC 7662).

mod client;
mod error;

pub use self::{
    client::{IntrospectedToken, IntrospectionClient},
    error::{EndpointError, EndpointUrlError, IntrospectionError},
};
