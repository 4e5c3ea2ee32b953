//! `incomingAuth`.

use vmcp_config::{Authz, IncomingAuth, IncomingMethod};

use crate::support::{document_errors, file};

fn incoming(text: &str) -> Vec<String> {
    document_errors(&format!("name: x\nincomingAuth: {text}\n"))
}

fn refused(text: &str, path: &str, words: &str) {
    let list = incoming(text);
    assert_eq!(list.len(), 1, "{list:#?}");
    assert!(list[0].contains(&format!(": {path}: ")) && list[0].contains(words), "{list:#?}");
}

fn accepted(text: &str) -> IncomingAuth {
    let text = format!("name: x\nincomingAuth: {text}\n");
    vmcp_config::File::parse(&text, vmcp_config::Format::Yaml).unwrap().incoming_auth
}

const OIDC: &str = "issuer: 'https://idp', clientId: c, audience: a";

#[test]
fn anonymous_and_local_reject_oidc_section() {
    assert_eq!(file("").incoming_auth, IncomingAuth::anonymous());
    assert_eq!(accepted("{type: local}").method, IncomingMethod::Local);
    refused(
        &format!("{{type: anonymous, oidc: {{{OIDC}}}}}"),
        "incomingAuth.oidc",
        "oidc only with type: oidc",
    );
}

#[test]
fn oidc_requires_issuer_and_audience() {
    refused(
        "{type: oidc}",
        "incomingAuth.oidc",
        "found no value; allowed: a value (required with type: oidc)",
    );
    let list = incoming("{type: oidc, oidc: {}}");
    assert_eq!(list.len(), 2, "{list:#?}");
    for (line, key) in list.iter().zip(["issuer", "audience"]) {
        assert!(line.contains(&format!("incomingAuth.oidc.{key}: found no value")), "{line}");
    }
}

#[test]
fn audience_is_default_client_id() {
    for (given, expected) in [("", "a"), (", clientId: ''", "a"), (", clientId: c", "c")] {
        let text = format!("{{type: oidc, oidc: {{issuer: 'https://idp', audience: a{given}}}}}");
        let IncomingMethod::Oidc(oidc) = accepted(&text).method else { panic!("oidc") };
        assert_eq!(oidc.client_id(), expected, "{given}");
    }
}

#[test]
fn oidc_has_reference_defaults() {
    let IncomingMethod::Oidc(oidc) = accepted(&format!("{{type: oidc, oidc: {{{OIDC}}}}}")).method
    else {
        panic!("oidc")
    };
    assert_eq!(oidc.resource(), "a");
    assert!(
        !oidc.insecure_allow_http
            && !oidc.jwks_allow_private_ip
            && !oidc.protected_resource_allow_private_ip
    );
    assert_eq!((oidc.jwks_url.as_ref(), oidc.introspection_url.as_ref()), (None, None));
    let with = accepted(&format!("{{type: oidc, oidc: {{{OIDC}, resource: 'https://r'}}}}")).method;
    let IncomingMethod::Oidc(oidc) = with else { panic!("oidc") };
    assert_eq!(oidc.resource(), "https://r");
}

#[test]
fn http_issuer_requires_explicit_permission() {
    let text = "issuer: 'http://idp', clientId: c, audience: a";
    refused(
        &format!("{{type: oidc, oidc: {{{text}}}}}"),
        "incomingAuth.oidc.issuer",
        "insecureAllowHttp: true",
    );
    accepted(&format!("{{type: oidc, oidc: {{{text}, insecureAllowHttp: true}}}}"));
    refused(
        "{type: oidc, oidc: {issuer: idp, clientId: c, audience: a}}",
        "incomingAuth.oidc.issuer",
        "an absolute http",
    );
}

#[test]
fn client_secret_requires_environment_variable_name() {
    accepted(&format!("{{type: oidc, oidc: {{{OIDC}, clientSecretEnv: A_B}}}}"));
    refused(
        &format!("{{type: oidc, oidc: {{{OIDC}, clientSecretEnv: a-b}}}}"),
        "incomingAuth.oidc.clientSecretEnv",
        "the name of an environment variable",
    );
}

#[test]
fn scopes_are_single_words() {
    refused(
        &format!("{{type: oidc, oidc: {{{OIDC}, scopes: [a, 'b c']}}}}"),
        "incomingAuth.oidc.scopes[1]",
        "a scope",
    );
}

#[test]
fn cedar_requires_policy_and_none_rejects_policies() {
    let authz = accepted("{type: anonymous, authz: {type: cedar, policies: ['permit(principal, action, resource);']}}").authz;
    let Authz::Cedar(cedar) = authz else { panic!("cedar") };
    assert_eq!((cedar.entities_json.as_str(), cedar.policies.len()), ("[]", 1));
    assert_eq!(accepted("{type: anonymous, authz: {type: none}}").authz, Authz::None);
    let path = "incomingAuth.authz.policies";
    refused("{type: anonymous, authz: {type: cedar}}", path, "required with");
    refused("{type: anonymous, authz: {type: cedar, policies: []}}", path, "at least 1");
    refused(
        "{type: anonymous, authz: {type: cedar, policies: ['']}}",
        "incomingAuth.authz.policies[0]",
        "non-empty",
    );
    refused("{type: anonymous, authz: {type: none, policies: [a]}}", path, "only with type: cedar");
}

#[test]
fn cedar_entities_are_a_json_array() {
    for bad in ["'{}'", "'['", "'x'"] {
        refused(
            &format!(
                "{{type: anonymous, authz: {{type: cedar, policies: [p], entitiesJson: {bad}}}}}"
            ),
            "incomingAuth.authz.entitiesJson",
            "a JSON array",
        );
    }
}

#[test]
fn primary_provider_requires_known_upstream() {
    refused(
        "{type: anonymous, authz: {type: cedar, policies: [p], primaryUpstreamProvider: okta}}",
        "incomingAuth.authz.primaryUpstreamProvider",
        "an upstream provider of authServer, which has none",
    );
}
