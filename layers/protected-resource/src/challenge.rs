//! What a client that is not let in is told.

use http::HeaderValue;

use crate::{ProtectedResource, is_scope};

/// The parameters of a `WWW-Authenticate` header of the scheme Bearer (RFC 6750 section 3), with the
/// address of the resource's description (RFC 9728 section 5.1).
///
/// A parameter without a value is left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct BearerChallenge<'a> {
    /// What is protected, in a word.
    pub realm: Option<&'a str>,
    /// Whose description tells where tokens are had.
    pub resource: Option<&'a ProtectedResource>,
    /// The scopes to ask for. What is no scope is left out.
    pub scopes: &'a [Box<str>],
    /// The error code; none where no credentials were offered (RFC 6750 section 3.1).
    pub error: Option<&'a str>,
    /// What is wrong, for the client's developer.
    pub description: Option<&'a str>,
}

impl BearerChallenge<'_> {
    /// The header. Quotes and backslashes are escaped, and what cannot stand in a header becomes a
    /// space, so it is `None` for nobody.
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

/// As it stands in a quoted string (RFC 9110 section 5.6.4). What cannot stand there becomes a space.
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
            // What is quoted is cut away; then only the names are left.
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
