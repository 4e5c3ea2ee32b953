//! The error that crosses layer boundaries, and how to look inside it.

use std::error::Error;

/// What an outgoing layer fails with: a small typed cause, boxed.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The first cause of type `E` in the chain that starts at `error`.
///
/// ```
/// use vmcp_core::{BoxError, cause};
/// let error: BoxError = Box::new(std::io::Error::other("gone"));
/// assert!(cause::<std::io::Error>(error.as_ref()).is_some());
/// ```
pub fn cause<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        next = error.source();
    }
    None
}
