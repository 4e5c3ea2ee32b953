//! Lossy reading of documents with errors.

use vmcp_config::{File, Format, IncomingMethod, Strategy};

use crate::support::FULL;

#[test]
fn lossy_parser_reads_valid_parts() {
    let text = "nam: x\nincomingAuth: {type: oidc, oidc: {issuer: 7, clientId: c, audience: a, scopes: [b]}}\n\
                outgoingAuth:\n  source: inlin\n  backends:\n\
                \x20   a: {type: header_injection, headerInjection: {headerName: X, headerValueEnv: KEY}}\n\
                \x20   b: {type: header_injection, headerInjection: {}}\n\
                backends:\n- nonsense\n- {name: b, url: 'https://b', transport: see, type: entry, caBundlePath: /b.pem}\n";
    assert!(File::parse(text, Format::Yaml).is_err());
    let file = File::parse_lossy(text, Format::Yaml).unwrap();
    let IncomingMethod::Oidc(oidc) = &file.incoming_auth.method else { panic!("{file:?}") };
    assert_eq!((&*oidc.audience, &oidc.scopes[..]), ("a", &["b".to_owned()][..]));
    let outgoing = &file.outgoing_auth.backends;
    assert!(matches!(outgoing["a"], Strategy::HeaderInjection(_)), "{outgoing:?}");
    assert_eq!(outgoing["b"], Strategy::Unauthenticated);
    assert_eq!(file.backends.len(), 2);
    assert_eq!(file.backends[1].name, "b");
}

#[test]
fn lossy_parser_reads_valid_document_unchanged() {
    let file = File::parse(FULL, Format::Yaml).unwrap();
    assert_eq!(File::parse_lossy(FULL, Format::Yaml), Some(file));
    assert_eq!(File::parse_lossy("a: [", Format::Yaml), None);
}
