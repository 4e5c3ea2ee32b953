//! Operation of a request to a backend.

use std::borrow::Cow;

use bytes::Bytes;
use vmcp_wire::unquote;

use crate::Trail;

/// Operation of a request to a backend, in the request's extensions. The sender inserts it, so that no layer parses the
/// message again.
#[derive(Clone, Debug)]
pub struct Operation {
    method: &'static str,
    name: Option<Bytes>,
    cause: Option<Trail>,
}

impl Operation {
    /// The message's method.
    #[must_use]
    pub const fn new(method: &'static str) -> Self {
        Self { method, name: None, cause: None }
    }

    /// The tool, prompt or resource that is asked for, as the backend knows it: a JSON string literal,
    /// as it stands in the message. It has to be one that exists: names of tools and prompts become
    /// labels of metrics.
    #[must_use]
    pub fn named(mut self, literal: Bytes) -> Self {
        self.name = Some(literal);
        self
    }

    /// The request of a client that it is asked for.
    #[must_use]
    pub fn caused_by(mut self, trail: Trail) -> Self {
        self.cause = Some(trail);
        self
    }

    /// The message's method.
    #[must_use]
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// The tool, prompt or resource.
    #[must_use]
    pub fn name(&self) -> Option<Cow<'_, str>> {
        unquote(self.name.as_deref()?)
    }

    /// The request of a client that it is asked for; `None` for what the gateway asks for itself.
    #[must_use]
    pub fn cause(&self) -> Option<&Trail> {
        self.cause.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_out_of_its_literal() {
        let call = Operation::new("tools/call").named(Bytes::from_static(br#""a\u0062c""#));
        assert_eq!((call.method(), call.name().as_deref()), ("tools/call", Some("abc")));
        let none = Operation::new("tools/call").named(Bytes::from_static(b"abc"));
        assert_eq!(none.name(), None);
    }
}
