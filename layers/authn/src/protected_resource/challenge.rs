//! Bearer challenges.

use http::HeaderValue;

use crate::{ProtectedResource, is_scope};

/// Parameters of a `WWW-Authenticate` header with the scheme Bearer (RFC 6750 section 3), including the URL of the
/// resource metadata (RFC 9728 section 5.1).
///
/// Parameters without a value are omitted.
#[derive(Clone, Copy, Debug, Default)]
pub struct BearerChallenge<'a> {
    /// The realm.
    pub realm: Option<&'a str>,
    /// The resource whose metadata names the authorization server.
    pub resource: Option<&'a ProtectedResource>,
    /// The scopes to request. Invalid scopes are omitted.
    pub scopes: &'a [Box<str>],
    /// The error code; `None` without credentials (RFC 6750 section 3.1).
    pub error: Option<&'a str>,
    /// Description of the error for developers of the client.
    pub description: Option<&'a str>,
}

impl BearerChallenge<'_> {
    /// Returns the header. Quotes and backslashes are escaped, and characters that are invalid in a header become
    /// spaces, so the result is always `Some`.
    #[must_use]
    pub fn header(&self) -> Option<HeaderValue> {
        let Self { realm, resource, scopes, error, description } = *self;
        let scopes: Vec<&str> = scopes.iter().map(|it| &**it).filter(|it| is_scope(it)).collect();
        let scopes = scopes.join(" ");
        let parameters = [
            ("realm", realm),
            ("resource_metadata", resource.map(ProtectedResource::metadata_url)),
            ("scope", Some(&*scopes).filter(|scopes| !scopes.is_empty())),
            ("error", error),
            ("error_description", description),
        ];
        let mut header = String::from("Bearer");
        for (name, value) in parameters {
            let Some(value) = value else { continue };
            header.push_str(if header.len() > "Bearer".len() { ", " } else { " " });
            header.push_str(name);
            header.push_str("=\"");
            header.extend(value.chars().flat_map(escape));
            header.push('"');
        }
        HeaderValue::try_from(header).ok()
    }
}

/// Escapes a character for a quoted string (RFC 9110 section 5.6.4). Invalid characters become spaces.
fn escape(character: char) -> impl Iterator<Item = char> {
    let escape = matches!(character, '"' | '\\').then_some('\\');
    let legal = character == ' ' || character.is_ascii_graphic();
    escape.into_iter().chain([if legal { character } else { ' ' }])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ResourceOptions;

    #[test]
    fn writes_all_parameters() {
        let rules = ResourceOptions::default();
        let scopes = ["mcp:list", "mcp:call"];
        let resource = ProtectedResource::new("https://a.example/mcp", "https://i", &scopes, rules);
        let resource = resource.unwrap();
        let challenge = BearerChallenge {
            realm: Some("https://i"),
            resource: Some(&resource),
            scopes: resource.scopes(),
            error: Some("invalid_token"),
            description: Some("the token has expired"),
        };
        assert_eq!(
            challenge.header().unwrap(),
            "Bearer realm=\"https://i\", resource_metadata=\
             \"https://a.example/.well-known/oauth-protected-resource/mcp\", \
             scope=\"mcp:list mcp:call\", error=\"invalid_token\", \
             error_description=\"the token has expired\""
        );
        assert_eq!(BearerChallenge::default().header().unwrap(), "Bearer");
    }

    proptest! {
        #[test]
        fn every_challenge_is_a_valid_header(text in ".{0,60}", scope in ".{0,20}") {
            let challenge = BearerChallenge {
                realm: Some(&text),
                scopes: &[scope.clone().into()],
                description: Some(&text),
                ..BearerChallenge::default()
            };
            let header = challenge.header().unwrap();
            let header = header.to_str().unwrap().to_owned();
            // Removes the quoted values; only the names remain.
            let mut bare = header.replace("\\\\", "").replace("\\\"", "");
            while let Some(begin) = bare.find('"') {
                let end = begin + 1 + bare[begin + 1..].find('"').unwrap();
                bare.replace_range(begin..=end, "");
            }
            let scoped = if is_scope(&scope) { " scope=," } else { "" };
            prop_assert_eq!(bare, format!("Bearer realm=,{scoped} error_description="));
        }
    }
}
