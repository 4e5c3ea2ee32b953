//! Key sets of an issuer, fetched over HTTP, cached and rotated.

mod discovery;
mod fetch;
mod lifetime;
mod source;

pub use self::{discovery::SourceError, source::JwksSource};
