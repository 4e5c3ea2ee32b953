//! Tests of the whole server through its router.

mod authorize;
mod callback;
mod connections;
mod discovery;
mod documents;
mod events;
mod faults;
mod freshness;
mod issuers;
mod machine;
mod mix_up;
mod refresh;
mod refused;
mod registration;
mod rows;
mod secrets;
mod shown;
mod token;
pub(crate) mod watched;
