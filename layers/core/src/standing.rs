//! Which streams end with the token that they were opened with.

/// Mark in the extensions of a response: its stream carries notifications, not a response with an end of its own, and ends
/// with the caller's token, as the stream of a `GET` does.
#[derive(Clone, Copy, Debug)]
pub struct Standing;
