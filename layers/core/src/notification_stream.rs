//! Streams that end with the token they were opened with.

/// Marker in the extensions of a response whose stream carries notifications instead of a response with an end of its own.
/// The stream ends with the caller's token, as the stream of a `GET` does.
#[derive(Clone, Copy, Debug)]
pub struct NotificationStream;
