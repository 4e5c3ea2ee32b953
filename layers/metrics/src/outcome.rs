//! How a request went, as far as labels say it.

use http::{Method, Version};

use crate::names::OTHER;

/// How a request went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The HTTP method: one of [`Outcome::verb`].
    pub verb: &'static str,
    /// The HTTP status; 0 when there was no response.
    pub status: u16,
    /// What went wrong.
    pub fault: Fault,
    /// The version of HTTP: one of [`Outcome::http`].
    pub http: &'static str,
    /// The MCP revision, or nothing if it is not known.
    pub revision: &'static str,
    /// Whether a backend was asked in the gateway's own name.
    pub own: bool,
}

/// What went wrong: the value of `error.type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// A JSON-RPC error, by its code.
    Code(i64),
    /// An HTTP status.
    Status(u16),
    /// One of a few fixed words.
    Word(&'static str),
}

impl Outcome {
    /// What is one way to end too many for its operation.
    pub(crate) const OTHER: Self = Self {
        verb: OTHER,
        status: 0,
        fault: Fault::Word(OTHER),
        http: "",
        revision: "",
        own: false,
    };

    /// The methods that are labels; the others are `_OTHER`.
    #[must_use]
    pub fn verb(method: &Method) -> &'static str {
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
        match self.fault {
            Fault::Status(405) => self.own || matches!(self.verb, "GET" | "DELETE"),
            Fault::Status(408 | 429) => false,
            Fault::Status(400..500) | Fault::Code(_) | Fault::CIRCUIT_OPEN => self.own,
            _ => false,
        }
    }

    /// A version of HTTP, as the conventions write it.
    #[must_use]
    pub fn http(version: Version) -> &'static str {
        match version {
            Version::HTTP_10 => "1.0",
            Version::HTTP_11 => "1.1",
            Version::HTTP_2 => "2",
            _ => "",
        }
    }
}

impl Fault {
    /// The tool says itself that it failed (`isError`). The word is that of the conventions.
    pub const TOOL: Self = Self::Word("tool_error");
    /// Whoever asked did not wait for the end.
    pub const CANCELLED: Self = Self::Word("cancelled");
    /// The circuit to the backend was open: nothing was sent.
    pub const CIRCUIT_OPEN: Self = Self::Word("circuit_open");
    /// No answer came, or its body broke off.
    pub const BROKEN: Self = Self::Word("broken");

    /// The value of `error.type`.
    #[must_use]
    pub fn label(self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Code(code) => Some(code.to_string()),
            Self::Status(status) => Some(status.to_string()),
            Self::Word(word) => Some(word.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_attempts_under_an_open_circuit_are_expected() {
        let outcome = |own| Outcome { fault: Fault::CIRCUIT_OPEN, own, ..Outcome::default() };
        assert!(outcome(true).is_expected());
        assert!(!outcome(false).is_expected());
    }
}
