//! Lossy reading of documents with errors.

use vmcp_config::composite::StepKind;
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

#[test]
fn lossy_parser_keeps_incomplete_steps() {
    let text = "name: x\nincomingAuth: {type: anonymous}\ncompositeTools:\n- name: t\n  steps:\n\
                \x20 - {id: a, arguments: {x: y}}\n\
                \x20 - {id: b, type: elicitation, condition: 'true'}\n\
                \x20 - {id: c, type: forEach, itemVar: index}\n\
                \x20 - {id: d, tool: w.t, onError: {action: retry}}\n";
    assert_eq!(File::parse(text, Format::Yaml).unwrap_err().as_slice().len(), 6);
    let file = File::parse_lossy(text, Format::Yaml).unwrap();
    let steps = &file.composite_tools[0].steps;
    let ids: Vec<_> = steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c", "d"]);
    assert!(matches!(&steps[0].kind, StepKind::Tool { arguments, .. } if arguments["x"] == "y"));
    assert_eq!(steps[1].condition.as_deref(), Some("true"));
}
