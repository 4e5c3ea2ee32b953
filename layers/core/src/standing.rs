//! Which streams end with the token that they were opened with.

/// In the extensions of a response: its stream is no answer, which has an end of its own, but news for as
/// long as the caller may hear them. It ends with the caller's token, like the answer to a `GET` does.
#[derive(Clone, Copy, Debug)]
pub struct Standing;
