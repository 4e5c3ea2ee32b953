//! Parser of `WWW-Authenticate` headers (RFC 9110 section 11.6.1, RFC 9728 section 5.1).

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;

/// Parameters of a challenge for a bearer token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BearerChallenge {
    /// URL of the resource's metadata (RFC 9728).
    pub resource_metadata: Option<String>,
    /// Required scopes (RFC 6750).
    pub scope: Option<String>,
}

/// Returns the first challenge for a bearer token in a response's headers.
#[must_use]
pub fn parse_bearer_challenge(headers: &HeaderMap) -> Option<BearerChallenge> {
    let lines = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(parse_challenges).find_map(|parts| {
        let mut parts = parts.into_iter();
        let (scheme, _) = parts.next()?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let mut found = BearerChallenge::default();
        for (name, value) in parts {
            let field = match name.to_ascii_lowercase().as_str() {
                "resource_metadata" => &mut found.resource_metadata,
                "scope" => &mut found.scope,
                _ => continue,
            };
            field.get_or_insert(value);
        }
        Some(found)
    })
}

/// Parses the challenges of a header line: the scheme, with an empty value, followed by its
/// parameters.
fn parse_challenges(line: &str) -> Vec<Vec<(String, String)>> {
    let mut challenges: Vec<Vec<(String, String)>> = Vec::new();
    let mut rest = line.trim_start_matches([',', ' ', '\t']);
    while !rest.is_empty() {
        let end = rest.find([' ', '\t', ',', '=']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let spaced = after.trim_start_matches([' ', '\t']);
        let value = spaced.strip_prefix('=').filter(|_| !name.is_empty());
        match (value, challenges.last_mut()) {
            (Some(value), Some(challenge)) => {
                let (value, after) = parse_value(value.trim_start_matches([' ', '\t']));
                challenge.push((name.to_owned(), value));
                rest = after;
            }
            // A parameter without a challenge.
            (Some(value), None) => rest = parse_value(value).1,
            (None, _) if name.is_empty() => break,
            (None, _) => {
                challenges.push(vec![(name.to_owned(), String::new())]);
                rest = spaced;
            }
        }
        rest = rest.trim_start_matches([',', ' ', '\t']);
    }
    challenges
}

/// Parses a token or a quoted string, and returns it with the text after it.
fn parse_value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return (value.to_owned(), rest);
    };
    let (mut value, mut escaped) = (String::new(), false);
    for (at, c) in quoted.char_indices() {
        match c {
            _ if escaped => {
                value.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (value, &quoted[at + 1..]),
            _ => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[&str]) -> Option<BearerChallenge> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(WWW_AUTHENTICATE, line.parse().unwrap());
        }
        parse_bearer_challenge(&headers)
    }

    #[test]
    fn finds_bearer_challenge_among_others() {
        let found = of(&[
            "Negotiate, Basic realm=\"a, Bearer scope=x\"",
            "DPoP algs=\"ES256\", BEARER realm=\"a \\\"b\\\"\", Resource_Metadata = \"https://a/b\", scope=\"x y\", error=z",
        ])
        .unwrap();
        assert_eq!(found.resource_metadata.as_deref(), Some("https://a/b"));
        assert_eq!(found.scope.as_deref(), Some("x y"));
    }

    #[test]
    fn accepts_bare_and_malformed_challenges() {
        assert_eq!(of(&["Bearer"]), Some(BearerChallenge::default()));
        assert_eq!(of(&["Basic realm=x"]), None);
        assert_eq!(of(&[]), None);
        for line in ["=", "Bearer =", "Bearer scope=\"", ",,,", "Bearer \"x\"", "Bearer scope"] {
            _ = of(&[line]);
        }
    }
}
