//! Operation of a request to a backend.

use std::borrow::Cow;

use bytes::Bytes;
use vmcp_wire::parse_json_string;

use crate::RequestContext;

/// Operation of a request to a backend, in the request's extensions. The sender inserts it, so that no layer parses the
/// message again.
#[derive(Clone, Debug)]
pub struct McpOperation {
    method: &'static str,
    name: Option<Bytes>,
    client_request: Option<RequestContext>,
}

impl McpOperation {
    /// Creates the operation of a message with this method.
    #[must_use]
    pub const fn new(method: &'static str) -> Self {
        Self { method, name: None, client_request: None }
    }

    /// Sets the backend's name of the tool, prompt or resource: the JSON string literal in the message. It must exist, as
    /// names of tools and prompts become labels of metrics.
    #[must_use]
    pub fn with_name(mut self, literal: Bytes) -> Self {
        self.name = Some(literal);
        self
    }

    /// Sets the client request that causes this one.
    #[must_use]
    pub fn with_client_request(mut self, request_context: RequestContext) -> Self {
        self.client_request = Some(request_context);
        self
    }

    /// Returns the message's method.
    #[must_use]
    pub fn method(&self) -> &'static str {
        self.method
    }

    /// Returns the name of the tool, prompt or resource.
    #[must_use]
    pub fn name(&self) -> Option<Cow<'_, str>> {
        parse_json_string(self.name.as_deref()?)
    }

    /// Returns the client request that causes this one; `None` for a request of the gateway itself.
    #[must_use]
    pub fn client_request(&self) -> Option<&RequestContext> {
        self.client_request.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_name_from_its_literal() {
        let call = McpOperation::new("tools/call").with_name(Bytes::from_static(br#""a\u0062c""#));
        assert_eq!((call.method(), call.name().as_deref()), ("tools/call", Some("abc")));
        let none = McpOperation::new("tools/call").with_name(Bytes::from_static(b"abc"));
        assert_eq!(none.name(), None);
    }
}
