//! Settings of HTTP/2 that both ends of a connection have.

use std::time::Duration;

/// Maximum number of requests in flight on a connection. A client has no more in total, so none waits for another.
pub(crate) const MAX_STREAMS: u32 = 1024;

/// Bytes of a body that may be under way unread.
pub(crate) const STREAM_WINDOW: u32 = 64 << 10;

/// Bytes of all bodies of a connection that may be under way unread. As many as the streams together have, so that a reader that
/// pauses does not stop the others.
pub(crate) const CONNECTION_WINDOW: u32 = MAX_STREAMS * STREAM_WINDOW;

/// Maximum size of the headers of a request or response in bytes. Those of clients have 16 KiB at most.
pub(crate) const MAX_HEADERS_SIZE: u32 = 32 << 10;

/// Time of silence on a connection after which an end sends a ping.
pub(crate) const PING_INTERVAL: Duration = Duration::from_secs(5);

/// Time within which the other end has to acknowledge a ping. A process that is stopped, or without CPU time, for less loses
/// nothing.
pub(crate) const PING_TIMEOUT: Duration = Duration::from_secs(10);
