#![doc = include_str!("../README.md")]

mod client_auth;

pub mod introspection;
pub mod token_endpoint;
pub mod token_response;

pub use self::client_auth::basic_credentials;
