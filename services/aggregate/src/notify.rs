//! Notifications to clients: authorization, and the streams that carry them.

pub(crate) mod authorizer;
pub(crate) mod listen;
