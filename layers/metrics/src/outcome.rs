//! How a request went, as far as labels say it.

use http::{Method, Version};

use crate::names::OTHER;

/// How a request went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The HTTP method: one of [`Outcome::http_method`].
    pub http_method: &'static str,
    /// The HTTP status; 0 when there was no response.
    pub status: u16,
    /// What went wrong.
    pub error_type: ErrorType,
    /// The version of HTTP: one of [`Outcome::http_version`].
    pub http_version: &'static str,
    /// The MCP revision, or nothing if it is not known.
    pub protocol_version: &'static str,
    /// Whether a backend was asked in the gateway's own name.
    pub is_gateway: bool,
}

/// What went wrong: the value of `error.type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ErrorType {
    /// Nothing.
    #[default]
    None,
    /// A JSON-RPC error, by its code.
    RpcCode(i64),
    /// An HTTP status.
    Status(u16),
    /// One of a few fixed words.
    Name(&'static str),
}

impl Outcome {
    /// What is one way to end too many for its operation.
    pub(crate) const OTHER: Self = Self {
        http_method: OTHER,
        status: 0,
        error_type: ErrorType::Name(OTHER),
        http_version: "",
        protocol_version: "",
        is_gateway: false,
    };

    /// The methods that are labels; the others are `_OTHER`.
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

    /// Whether a backend that works may answer so: it is told, and no error. What is asked in the gateway's own
    /// name is whether it is there, which a refusal shows. Neither its stream nor the end of a session needs to
    /// be had (MCP 2025-11-25, Streamable HTTP). Under an open circuit, the gateway's own attempts are refused by itself.
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

    /// A version of HTTP, as the conventions write it.
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
    /// The tool says itself that it failed (`isError`). The word is that of the conventions.
    pub const TOOL: Self = Self::Name("tool_error");
    /// Whoever asked did not wait for the end.
    pub const CANCELLED: Self = Self::Name("cancelled");
    /// The circuit to the backend was open: nothing was sent.
    pub const CIRCUIT_OPEN: Self = Self::Name("circuit_open");
    /// No answer came, or its body broke off.
    pub const BROKEN: Self = Self::Name("broken");

    /// The value of `error.type`.
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
