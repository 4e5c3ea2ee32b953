//! Notifications: from the streams of backends, authorized, to the streams of clients.

pub(crate) mod backend_stream;
pub(crate) mod listeners;
pub(crate) mod notification_filter;
pub(crate) mod notifier;
