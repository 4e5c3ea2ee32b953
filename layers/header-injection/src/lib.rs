#![doc = include_str!("../README.md")]

mod credential;
mod header;
mod layer;
mod service;
mod static_headers;

pub use vmcp_core::{
    BoxError, Caller, CredentialError, CredentialErrorKind, NoRetry, RetryOnUnauthorized,
    RetryPolicy,
};

pub use self::{
    credential::{Credential, CredentialFuture, CredentialProvider, SecretError},
    header::{CredentialHeader, HeaderError},
    layer::HeaderInjectionLayer,
    service::{HeaderInjection, ResponseFuture, TokenRejected},
    static_headers::{StaticHeaders, StaticHeadersLayer},
};
