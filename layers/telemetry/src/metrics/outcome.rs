//! Result of a request, as far as labels contain it.

use http::{Method, Version};

use crate::metrics::names::OTHER;

/// Result of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The HTTP method: a value of [`Outcome::http_method`].
    pub http_method: &'static str,
    /// The HTTP status; 0 without a response.
    pub status: u16,
    /// The error.
    pub error_type: ErrorType,
    /// The HTTP version: a value of [`Outcome::http_version`].
    pub http_version: &'static str,
    /// The MCP protocol version; empty if unknown.
    pub protocol_version: &'static str,
    /// Set for requests to a backend on behalf of the gateway itself.
    pub is_gateway: bool,
}

/// Value of `error.type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ErrorType {
    /// No error.
    #[default]
    None,
    /// The code of a JSON-RPC error.
    RpcCode(i64),
    /// An HTTP status.
    Status(u16),
    /// A fixed name.
    Name(&'static str),
}

impl Outcome {
    /// Outcomes beyond the limit of an operation.
    pub(crate) const OTHER: Self = Self {
        http_method: OTHER,
        status: 0,
        error_type: ErrorType::Name(OTHER),
        http_version: "",
        protocol_version: "",
        is_gateway: false,
    };

    /// Returns the label of an HTTP method; `_OTHER` for unusual ones.
    #[must_use]
    pub fn http_method(method: &Method) -> &'static str {
        match *method {
            Method::POST => "POST",
            Method::GET => "GET",
            Method::DELETE => "DELETE",
            Method::OPTIONS => "OPTIONS",
            _ => OTHER,
        }
    }

    /// Returns `true` for a failure that a working backend may produce, and that is not counted as its error: any
    /// client error, JSON-RPC error or open circuit for requests of the gateway itself, which only check reachability,
    /// and 405 for optional streams and session ends (MCP 2025-11-25, Streamable HTTP).
    #[must_use]
    pub fn is_expected(&self) -> bool {
        match self.error_type {
            ErrorType::Status(405) => {
                self.is_gateway || matches!(self.http_method, "GET" | "DELETE")
            }
            ErrorType::Status(408 | 429) => false,
            ErrorType::Status(400..500) | ErrorType::RpcCode(_) | ErrorType::CIRCUIT_OPEN => {
                self.is_gateway
            }
            _ => false,
        }
    }

    /// Returns the label of an HTTP version, as the conventions write it.
    #[must_use]
    pub fn http_version(version: Version) -> &'static str {
        match version {
            Version::HTTP_10 => "1.0",
            Version::HTTP_11 => "1.1",
            Version::HTTP_2 => "2",
            _ => "",
        }
    }
}

impl ErrorType {
    /// A tool result with `isError`. The conventions define the name.
    pub const TOOL: Self = Self::Name("tool_error");
    /// The client did not wait for the end of the response.
    pub const CANCELLED: Self = Self::Name("cancelled");
    /// The circuit of the backend was open; no request was sent.
    pub const CIRCUIT_OPEN: Self = Self::Name("circuit_open");
    /// There was no response, or its body was truncated.
    pub const BROKEN: Self = Self::Name("broken");

    /// Returns the value of `error.type`.
    #[must_use]
    pub fn label(self) -> Option<String> {
        match self {
            Self::None => None,
            Self::RpcCode(code) => Some(code.to_string()),
            Self::Status(status) => Some(status.to_string()),
            Self::Name(word) => Some(word.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateway_requests_expect_open_circuit() {
        let outcome = |is_gateway| Outcome {
            error_type: ErrorType::CIRCUIT_OPEN,
            is_gateway,
            ..Outcome::default()
        };
        assert!(outcome(true).is_expected());
        assert!(!outcome(false).is_expected());
    }
}
