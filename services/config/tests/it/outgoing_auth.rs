//! `outgoingAuth`.

use vmcp_config::{
    OutgoingAuth, Source, Strategy,
    outgoing_auth::{ClientSecret, HeaderValue, RoleMatch, TokenType},
};

use crate::support::{assert_error, errors, file};

fn default(strategy: &str) -> String {
    format!("outgoingAuth: {{source: inline, default: {strategy}}}\n")
}

fn strategy(text: &str) -> Strategy {
    file(&default(text)).outgoing_auth.default.unwrap()
}

fn header(fields: &str) -> String {
    default(&format!("{{type: header_injection, headerInjection: {{{fields}}}}}"))
}

fn exchange(fields: &str) -> String {
    format!("{{type: token_exchange, tokenExchange: {{tokenUrl: 'https://t'{fields}}}}}")
}

fn sts(fields: &str) -> String {
    format!("{{type: aws_sts, awsSts: {{region: eu-central-1{fields}}}}}")
}

const ROLE: &str = "arn:aws:iam::123456789012:role/a";

#[test]
fn missing_section_sends_no_credentials_to_backends() {
    let auth = file("").outgoing_auth;
    assert_eq!(auth, OutgoingAuth::default());
    assert_eq!((auth.source, auth.strategy_for("a")), (Source::Inline, None));
}

#[test]
fn with_the_section_the_source_is_required() {
    assert_error("outgoingAuth: {}\n", "outgoingAuth.source", "required");
    assert_error(
        "outgoingAuth: {source: inlined}\n",
        "outgoingAuth.source",
        "did you mean inline?",
    );
    assert_eq!(
        file("outgoingAuth: {source: discovered}\n").outgoing_auth.source,
        Source::Discovered
    );
}

#[test]
fn backend_has_own_or_default_strategy() {
    let text = "outgoingAuth:\n  source: inline\n  default: {type: unauthenticated}\n  backends:\n    a: {type: header_injection, headerInjection: {headerName: X, headerValueEnv: Y}}\n";
    let auth = file(text).outgoing_auth;
    assert_eq!(auth.strategy_for("b"), Some(&Strategy::Unauthenticated));
    assert!(matches!(auth.strategy_for("a"), Some(Strategy::HeaderInjection(_))));
}

#[test]
fn each_type_requires_its_own_object_only() {
    for (kind, object) in [
        ("header_injection", "headerInjection"),
        ("token_exchange", "tokenExchange"),
        ("upstream_inject", "upstreamInject"),
        ("aws_sts", "awsSts"),
    ] {
        assert_error(
            &default(&format!("{{type: {kind}}}")),
            &format!("outgoingAuth.default.{object}"),
            "required with",
        );
    }
    assert_error(
        &default("{type: unauthenticated, headerInjection: {headerName: X, headerValueEnv: Y}}"),
        "outgoingAuth.default.headerInjection",
        "only with type: header_injection",
    );
    assert_error(
        &default("{type: obo}"),
        "outgoingAuth.default.type",
        "unauthenticated, header_injection, token_exchange",
    );
    assert_error(&default("{}"), "outgoingAuth.default.type", "required");
}

#[test]
fn header_injection_has_value_or_variable() {
    let Strategy::HeaderInjection(literal) =
        file(&header("headerName: X, headerValue: v")).outgoing_auth.default.unwrap()
    else {
        panic!("a header")
    };
    assert!(matches!(literal.value, HeaderValue::Literal(_)));
    assert_error(
        &header("headerName: X"),
        "outgoingAuth.default.headerInjection",
        "exactly one of them",
    );
    assert_error(
        &header("headerName: X, headerValue: a, headerValueEnv: B"),
        "outgoingAuth.default.headerInjection.headerValueEnv",
        "headerValue and headerValueEnv together",
    );
    assert_error(
        &header("headerName: 'X Y', headerValueEnv: B"),
        "outgoingAuth.default.headerInjection.headerName",
        "RFC 9110",
    );
    assert_error(
        &header("headerName: X, headerValue: ''"),
        "outgoingAuth.default.headerInjection",
        "exactly one of them",
    );
}

#[test]
fn secrets_are_absent_from_messages_and_debug() {
    for text in
        [header("headerName: X, headerValue: [sesame]"), header("headerName: X, headerValue: 4711")]
    {
        let list = errors(&text).join("\n");
        assert!(!list.contains("sesame") && !list.contains("4711"), "{list}");
    }
    let file = file(&header("headerName: X, headerValue: sesame"));
    assert!(!format!("{file:?}").contains("sesame"));
}

#[test]
fn accepts_short_and_long_token_types() {
    for (word, expected) in [
        ("access_token", TokenType::AccessToken),
        ("urn:ietf:params:oauth:token-type:access_token", TokenType::AccessToken),
        ("id_token", TokenType::IdToken),
        ("urn:ietf:params:oauth:token-type:id_token", TokenType::IdToken),
        ("jwt", TokenType::Jwt),
        ("urn:ietf:params:oauth:token-type:jwt", TokenType::Jwt),
        ("''", TokenType::AccessToken),
    ] {
        let Strategy::TokenExchange(exchange) =
            strategy(&exchange(&format!(", subjectTokenType: {word}")))
        else {
            panic!("an exchange")
        };
        assert_eq!(exchange.subject_token_type, expected, "{word}");
    }
    assert_error(
        &default(&exchange(", subjectTokenType: saml2")),
        "outgoingAuth.default.tokenExchange.subjectTokenType",
        "access_token",
    );
}

#[test]
fn token_exchange_secret_requires_client_id() {
    let Strategy::TokenExchange(plain) = strategy(&exchange("")) else { panic!("an exchange") };
    assert_eq!((plain.client_secret, plain.external_token_header_name), (None, None));
    let Strategy::TokenExchange(own) =
        strategy(&exchange(", clientId: c, clientSecretEnv: S, externalTokenHeaderName: X-T"))
    else {
        panic!("an exchange")
    };
    assert!(matches!(own.client_secret, Some(ClientSecret::Env(_))));
    assert_eq!(own.external_token_header_name.unwrap().as_str(), "X-T");
    let path = "outgoingAuth.default.tokenExchange";
    assert_error(
        &default(&exchange(", clientId: c, clientSecret: s, clientSecretEnv: S")),
        &format!("{path}.clientSecretEnv"),
        "together",
    );
    assert_error(
        &default(&exchange(", clientSecretEnv: S")),
        &format!("{path}.clientSecretEnv"),
        "clientSecretEnv only together with clientId",
    );
    assert_error(
        &default("{type: token_exchange, tokenExchange: {}}"),
        &format!("{path}.tokenUrl"),
        "required",
    );
}

#[test]
fn upstream_inject_requires_known_upstream_provider() {
    assert_error(
        &default("{type: upstream_inject, upstreamInject: {providerName: okta}}"),
        "outgoingAuth.default.upstreamInject.providerName",
        "an upstream provider of authServer, which has none",
    );
    assert_error(
        "outgoingAuth: {source: inline, backends: {a: {type: token_exchange, tokenExchange: {tokenUrl: 'https://t', subjectProviderName: okta}}}}\n",
        "outgoingAuth.backends.a.tokenExchange.subjectProviderName",
        "an upstream provider of authServer",
    );
}

#[test]
fn sts_requires_region_and_role() {
    let Strategy::AwsSts(aws) = strategy(&sts(&format!(", fallbackRoleArn: '{ROLE}'"))) else {
        panic!("sts")
    };
    assert_eq!((aws.role_claim.as_str(), aws.service.as_str()), ("groups", "aws-mcp"));
    assert_eq!((aws.session_duration, aws.session_name_claim.as_str()), (3600, "sub"));
    let path = "outgoingAuth.default.awsSts";
    assert_error(&default(&sts("")), path, "neither fallbackRoleArn nor roleMappings");
    assert_error(&default(&sts(", roleMappings: []")), &format!("{path}.roleMappings"), "no role");
    let elsewhere = format!("{{type: aws_sts, awsSts: {{region: EU, fallbackRoleArn: '{ROLE}'}}}}");
    assert_error(&default(&elsewhere), &format!("{path}.region"), "an AWS region");
    assert_error(
        &default(&sts(", fallbackRoleArn: admin")),
        &format!("{path}.fallbackRoleArn"),
        "an IAM role",
    );
}

#[test]
fn sts_session_lasts_15_minutes_to_12_hours() {
    for (seconds, good) in [(899, false), (900, true), (43200, true), (43201, false)] {
        let text =
            default(&sts(&format!(", fallbackRoleArn: '{ROLE}', sessionDuration: {seconds}")));
        if good {
            file(&text);
        } else {
            assert_error(&text, "outgoingAuth.default.awsSts.sessionDuration", "from 900 to 43200");
        }
    }
}

#[test]
fn role_mapping_has_claim_or_matcher() {
    let mapping =
        |fields: &str| default(&sts(&format!(", roleMappings: [{{roleArn: '{ROLE}'{fields}}}]")));
    let Some(Strategy::AwsSts(aws)) =
        file(&mapping(", claim: a, priority: 0")).outgoing_auth.default
    else {
        panic!("sts")
    };
    assert_eq!(aws.role_mappings[0].matches, RoleMatch::Claim("a".into()));
    assert_eq!(aws.role_mappings[0].priority, Some(0));
    let path = "outgoingAuth.default.awsSts.roleMappings[0]";
    assert_error(&mapping(""), path, "exactly one of them");
    assert_error(&mapping(", claim: a, matcher: b"), &format!("{path}.matcher"), "together");
    assert_error(&mapping(", claim: a, priority: -1"), &format!("{path}.priority"), "an integer");
    assert_error(&mapping(", claim: ''"), path, "exactly one of them");
}
