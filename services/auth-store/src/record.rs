//! Records, one kind per file.

pub(crate) mod client;
pub(crate) mod code;
pub(crate) mod grant;
pub(crate) mod login;
pub(crate) mod session;
pub(crate) mod user;
