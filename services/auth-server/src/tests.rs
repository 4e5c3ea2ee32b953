//! The whole server, through its router.

mod authorize;
mod callback;
mod discovery;
mod refresh;
mod registration;
mod token;
