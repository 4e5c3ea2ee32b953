//! Secrets in the URLs of a client's file. An environment variable replaces each of them.

use std::fmt::Write as _;

use url::Url;

use super::placeholder::{escape, variable_name};

/// Minimum length of a token.
const MIN_TOKEN: usize = 20;

/// Parts of parameter names whose values are secret.
const SECRET_NAMES: &[&str] =
    &["auth", "code", "credential", "key", "pass", "secret", "sig", "token"];

/// Last words in the names of headers without secrets.
const HARMLESS_NAMES: &[&str] = &[
    "env",
    "environment",
    "language",
    "locale",
    "mode",
    "org",
    "organization",
    "project",
    "readonly",
    "region",
    "team",
    "tenant",
    "toolsets",
    "version",
    "workspace",
    "zone",
];

/// Maximum length of a copied header value.
const MAX_HARMLESS: usize = 32;

/// URL as a template of the configuration, without its secrets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SecretFreeUrl {
    pub(super) template: String,
    /// For each variable: its name and the origin of its value.
    pub(super) variables: Vec<(String, String)>,
    /// The variable for `Authorization: Basic ...`, which replaces user and password.
    pub(super) authorization: Option<String>,
}

/// Replaces user and password, secret parameters, and parts of the path that look like tokens. `prefix` begins the
/// names of variables.
pub(super) fn without_secrets(url: &str, prefix: &str) -> SecretFreeUrl {
    let mut found =
        SecretFreeUrl { template: escape(url), variables: Vec::new(), authorization: None };
    let Ok(mut parsed) = Url::parse(url) else { return found };
    if !parsed.username().is_empty() || parsed.password().is_some() {
        // An http URL has a host, so neither can fail.
        _ = parsed.set_username("");
        _ = parsed.set_password(None);
        found.authorization = Some(variable_name(&format!("{prefix}_AUTHORIZATION")));
    }
    let (Some(host), path) = (parsed.host_str(), parsed.path()) else { return found };
    let port = parsed.port().map(|port| format!(":{port}")).unwrap_or_default();
    let mut template = format!("{}://{host}{port}", parsed.scheme());
    let mut variables = Vec::new();
    for (index, part) in path.split('/').enumerate() {
        if index > 0 {
            template.push('/');
        }
        if is_token(part) {
            let name = numbered(&format!("{prefix}_PATH"), &variables);
            _ = write!(template, "${{{name}}}");
            variables.push((name, "a part of the path of its URL".to_owned()));
        } else {
            template.push_str(&escape(part));
        }
    }
    for (index, pair) in parsed.query().into_iter().flat_map(|query| query.split('&')).enumerate() {
        template.push(if index == 0 { '?' } else { '&' });
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let lower = key.to_ascii_lowercase();
        let is_secret = SECRET_NAMES.iter().any(|name| lower.contains(name)) || is_token(value);
        if is_secret && !value.is_empty() {
            let name = numbered(&format!("{prefix}_{key}"), &variables);
            _ = write!(template, "{}=${{{name}}}", escape(key));
            variables.push((name, format!("the parameter {key} of its URL")));
        } else {
            template.push_str(&escape(pair));
        }
    }
    found.template = template;
    found.variables = variables;
    found
}

/// Returns `true` if the header's name and value show that it is not a secret.
pub(super) fn is_harmless(header: &str, value: &str) -> bool {
    let name = header.to_ascii_lowercase();
    let last = name.rsplit(['-', '_']).next().unwrap_or_default();
    let is_named = HARMLESS_NAMES.contains(&last)
        && !SECRET_NAMES.iter().chain(&["cookie", "session"]).any(|secret| name.contains(secret));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ',');
    is_named
        && (1..=MAX_HARMLESS).contains(&value.len())
        && value.chars().all(is_plain)
        && !is_token(value)
}

/// Returns `true` if a text looks like a token: long, with letters and digits.
fn is_token(text: &str) -> bool {
    let of = |kind: fn(&char) -> bool| text.chars().filter(kind).count();
    text.len() >= MIN_TOKEN && of(char::is_ascii_digit) >= 2 && of(char::is_ascii_alphabetic) >= 2
}

fn numbered(name: &str, taken: &[(String, String)]) -> String {
    let name = variable_name(name);
    let is_free = |name: &String| !taken.iter().any(|(other, _)| other == name);
    let mut names =
        std::iter::once(name.clone()).chain((2..=99).map(|number| format!("{name}_{number}")));
    names.find(is_free).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(url: &str) -> String {
        without_secrets(url, "MCP_A").template
    }

    #[test]
    fn replaces_parameters_and_path_parts_that_look_secret() {
        for (url, expected) in [
            ("https://a.test/mcp", "https://a.test/mcp"),
            ("https://a.test:8443/mcp?team=x", "https://a.test:8443/mcp?team=x"),
            (
                "https://a.test/mcp?api_key=x&team=y",
                "https://a.test/mcp?api_key=${MCP_A_API_KEY}&team=y",
            ),
            ("https://a.test/s/NjY2ZGM0ZDUtYjM5NS00/mcp", "https://a.test/s/${MCP_A_PATH}/mcp"),
            ("https://me:pw@a.test/mcp", "https://a.test/mcp"),
        ] {
            assert_eq!(template(url), expected);
        }
    }

    #[test]
    fn copies_only_headers_without_secrets() {
        for (header, value) in [
            ("X-Org", "acme"),
            ("x-aws-region", "eu-west-1"),
            ("X-MCP-Toolsets", "repos,issues"),
            ("Api-Version", "2025-01-01"),
        ] {
            assert!(is_harmless(header, value), "{header}");
        }
        for (header, value) in [
            ("Authorization", "a"),
            ("X-Api-Key", "a"),
            ("X-Key-Version", "a"),
            ("X-Org-Token", "a"),
            ("Cookie", "a"),
            ("X-Session-Mode", "a"),
            ("X-Other", "a"),
            ("X-Org", "Bearer a"),
            ("X-Org", "NjY2ZGM0ZDUtYjM5NS00"),
            ("X-Org", "0123456789012345678901234567890123"),
            ("X-Org", ""),
        ] {
            assert!(!is_harmless(header, value), "{header}: {value}");
        }
    }

    #[test]
    fn names_the_variable_of_user_and_password() {
        let found = without_secrets("https://me:hunter2@a.test/mcp", "MCP_A");
        assert_eq!(found.authorization.as_deref(), Some("MCP_A_AUTHORIZATION"));
        assert!(!format!("{found:?}").contains("hunter2"));
    }

    #[test]
    fn gives_each_secret_its_own_variable() {
        let found = without_secrets("https://a.test/?key=1&KEY=2", "MCP_A");
        assert_eq!(found.template, "https://a.test/?key=${MCP_A_KEY}&KEY=${MCP_A_KEY_2}");
    }
}
