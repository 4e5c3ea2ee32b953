//! Formats of text in documents, for the reader and the JSON Schema.

use std::sync::OnceLock;

use regex_lite::Regex;

/// Format of text.
#[derive(Debug)]
pub(crate) struct Pattern {
    /// Regular expression of the JSON Schema (ECMA-262).
    pub(crate) regex: &'static str,
    /// Description for messages.
    pub(crate) meaning: &'static str,
    compiled: OnceLock<Regex>,
}

impl Pattern {
    pub(crate) const fn new(regex: &'static str, meaning: &'static str) -> Self {
        Self { regex, meaning, compiled: OnceLock::new() }
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        self.compiled
            .get_or_init(|| Regex::new(self.regex).expect("a test compiles every pattern"))
            .is_match(text)
    }
}

pub(crate) static HTTP: Pattern =
    Pattern::new("^https?://", "an absolute http:// or https:// URL with a host");
pub(crate) static HTTPS: Pattern =
    Pattern::new("^https://", "an absolute https:// URL with a host");
pub(crate) static DISCOVERY: Pattern = Pattern::new(
    "^https://[^\\s?#]+[^/\\s?#]$",
    "an https:// URL without query, fragment or trailing slash",
);
pub(crate) static ISSUER: Pattern = Pattern::new(
    r"^https?://[^\s?#]+[^/\s?#]$",
    "an https:// URL (http:// on loopback) without query, fragment or trailing slash (RFC 8414)",
);
pub(crate) static DNS_LABEL: Pattern = Pattern::new(
    "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$",
    "lowercase letters, digits and hyphens that begin and end with a letter or digit",
);
pub(crate) static DURATION: Pattern = Pattern::new(
    r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$",
    "a number with a unit, such as 500ms, 30s, 1m30s or 168h",
);
pub(crate) static DECIMAL: Pattern =
    Pattern::new("^([0-9]*[.])?[0-9]+$", "a decimal number in quotes, such as \"0.5\"");
pub(crate) static ENV_NAME: Pattern = Pattern::new(
    "^[A-Za-z_][A-Za-z0-9_]*$",
    "the name of an environment variable: letters, digits and underscores, not starting with a digit",
);
pub(crate) static HEADER_NAME: Pattern = Pattern::new(
    "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
    "the name of an HTTP header field (RFC 9110, section 5.1)",
);
pub(crate) static REGION: Pattern =
    Pattern::new("^[a-z]{2}(-[a-z]+)+-[0-9]+$", "an AWS region such as eu-central-1");
pub(crate) static ROLE_ARN: Pattern = Pattern::new(
    r"^arn:(aws|aws-cn|aws-us-gov):iam::[0-9]{12}:role/[A-Za-z0-9_+=,.@/-]+$",
    "an IAM role such as arn:aws:iam::123456789012:role/name",
);
pub(crate) static TOOL_NAME: Pattern = Pattern::new(
    "^[A-Za-z0-9_.-]{1,128}$",
    "1 to 128 of A-Z, a-z, 0-9, _, - and . (MCP 2025-11-25, Tools, Tool Names)",
);
pub(crate) static PREFIX_FORMAT: Pattern = Pattern::new(
    r"^([!-z|~]|\{workload\})+$",
    "printable ASCII, with {workload} as the placeholder for the name of the backend and no other one",
);
pub(crate) static IDENTIFIER: Pattern = Pattern::new(
    "^[A-Za-z_][A-Za-z0-9_]*$",
    "a variable name: letters, digits and underscores, not starting with a digit",
);
pub(crate) static SCOPE: Pattern = Pattern::new(
    "^[\\x21\\x23-\\x5B\\x5D-\\x7E]+$",
    "a scope: printable ASCII without spaces, quotes and backslashes (RFC 6749, section 3.3)",
);
pub(crate) static HOST_PORT: Pattern =
    Pattern::new(r"^(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):[0-9]{1,5}$", "host:port");
pub(crate) static KEY_PREFIX: Pattern = Pattern::new(
    "^[^{}]*$",
    "text without { and }, which would split the keys of one storage among the nodes of a cluster",
);
pub(crate) static ABSOLUTE_PATH: Pattern =
    Pattern::new("^/", "an absolute path without .. and control characters");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles_and_matches_its_example() {
        for (pattern, example) in [
            (&HTTP, "http://a"),
            (&HTTPS, "https://a"),
            (&ISSUER, "https://a/b"),
            (&DISCOVERY, "https://a/b"),
            (&DNS_LABEL, "a-b"),
            (&DURATION, "1m30s"),
            (&DECIMAL, "0.5"),
            (&ENV_NAME, "A_1"),
            (&HEADER_NAME, "X-Api-Key"),
            (&REGION, "eu-central-1"),
            (&ROLE_ARN, "arn:aws:iam::123456789012:role/name"),
            (&PREFIX_FORMAT, "{workload}_"),
            (&TOOL_NAME, "a.b-C_9"),
            (&IDENTIFIER, "item"),
            (&SCOPE, "read:all"),
            (&HOST_PORT, "redis:6379"),
            (&ABSOLUTE_PATH, "/etc"),
        ] {
            assert!(pattern.matches(example), "{}", pattern.regex);
            assert!(!pattern.matches(""), "{}", pattern.regex);
            assert!(!pattern.matches("\n"), "{}", pattern.regex);
        }
    }
}
