//! Rules of the document as a whole.

use vmcp_config::{Config, File, Format};

use crate::support::{FULL, MINIMAL, assert_error, config, document_errors, errors, file};

#[test]
fn minimal_file_has_name_and_incoming_auth() {
    let file = file("");
    assert_eq!(file.name, "x");
    assert_eq!(file.group(), "x");
    assert_eq!(file.backends, []);
}

#[test]
fn accepts_document_with_every_key() {
    let file = File::parse(FULL, Format::Yaml).unwrap();
    assert_eq!(file.backends.len(), 5);
    assert_eq!(file.group(), "engineering-team");
}

#[test]
fn name_and_incoming_auth_are_required() {
    let list = document_errors("backends: []\n");
    assert_eq!(list.len(), 2, "{list:#?}");
    assert!(list[0].contains("name: found no value"), "{list:#?}");
    assert!(list[1].contains("incomingAuth: found no value"), "{list:#?}");
}

#[test]
fn rejects_empty_name() {
    let list = document_errors("name: ''\nincomingAuth: {type: anonymous}\n");
    assert!(list[0].contains("line 1: name: found \"\"; allowed: non-empty text"), "{list:#?}");
}

#[test]
fn reports_all_errors_at_once() {
    let text = "\
name: 7
incomingAuth: {type: anonymus}
backend: []
backends:
  - {name: a, url: ftp://x, transport: stdio}
  - {name: b, url: 'http://x', transport: sse, caBundlePath: /x}
  - {name: b, url: 'http://x', trasnport: sse}
operational:
  timeouts: {default: 30}
";
    let list = document_errors(text);
    let expected = [
        "line 1: name: found the number 7; allowed: text; put quotes around a number or boolean to make it text (did you mean \"7\"?)",
        "line 2: incomingAuth.type: found \"anonymus\"; allowed: oidc, local or anonymous (did you mean anonymous?)",
        "line 3: backend: found an unknown key; allowed: ",
        "line 5: backends[0].url: found \"ftp://x\"; allowed: an absolute http:// or https:// URL with a host",
        "line 5: backends[0].transport: found \"stdio\"; allowed: sse or streamable-http",
        "line 6: backends[1].caBundlePath: found caBundlePath with type: \"\"; allowed: caBundlePath only with type: entry",
        "line 7: backends[2].transport: found no value; allowed: a value (the key is required)",
        "line 7: backends[2].trasnport: found an unknown key; allowed: allowPrivateEndpoint, caBundlePath, headers, metadata, name, transport, type, url (did you mean transport?)",
        "line 7: backends[2].name: found the duplicate value \"b\"",
        "line 9: operational.timeouts.default: found the number 30; allowed: a number with a unit, such as 500ms, 30s, 1m30s or 168h",
    ];
    assert_eq!(list.len(), expected.len(), "{list:#?}");
    for (line, expected) in list.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}\n{expected}");
    }
    assert!(list[2].ends_with("(did you mean backends?)"), "{}", list[2]);
}

#[test]
fn no_error_hides_another_of_its_section() {
    let text = "
operational:
  timeouts: {default: 0s, perWorkload: {a: 5 minutes}}
  failureHandling:
    healthCheckInterval: 0s
    healthCheckTimeout: 1h
    unhealthyThreshold: 0
    circuitBreaker: {failureThreshold: 0, timeout: 1ms}
optimizer: {hybridSearchSemanticRatio: '1.5', maxToolsToReturn: x, embeddingServiceTimeout: 0s}
telemetry: {samplingRate: '2', tracingEnabled: maybe}
";
    let errors = errors(text);
    for path in [
        "operational.timeouts.default",
        "operational.timeouts.perWorkload.a",
        "operational.failureHandling.healthCheckInterval",
        "operational.failureHandling.unhealthyThreshold",
        "operational.failureHandling.circuitBreaker.failureThreshold",
        "operational.failureHandling.circuitBreaker.timeout",
        "optimizer.hybridSearchSemanticRatio",
        "optimizer.maxToolsToReturn",
        "optimizer.embeddingServiceTimeout",
        "telemetry.samplingRate",
        "telemetry.tracingEnabled",
    ] {
        let told = errors.iter().filter(|one| one.contains(&format!(": {path}: "))).count();
        assert_eq!(told, 1, "{path}: {errors:#?}");
    }
    assert_eq!(errors.len(), 11, "{errors:#?}");
    // The rule between two keys holds beside an error in a third.
    let text = "operational: {failureHandling: {healthCheckTimeout: 1m, unhealthyThreshold: 0}}\n";
    assert_eq!(self::errors(text).len(), 2);
}

#[test]
fn rejects_required_key_without_value() {
    let errors = document_errors("name:\nincomingAuth: {type: anonymous}\n");
    assert_eq!(errors, ["line 1: name: found no value; allowed: a value (the key is required)"]);
}

#[test]
fn errors_never_quote_password_in_url() {
    for address in ["http://user:s3cret@h:99999/", "http://user:s3cret@", "http://user:s3cret@h"] {
        let text = format!("backends: [{{name: a, transport: sse, url: '{address}'}}]\n");
        let errors = errors(&text);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(!errors[0].contains("s3cret"), "{errors:?}");
    }
}

#[test]
fn errors_serialize_to_json() {
    let errors =
        File::parse("name: x\nincomingAuth: {type: anonymus}\n", Format::Yaml).unwrap_err();
    let json = serde_json::to_value(&errors).unwrap();
    assert_eq!(
        json,
        serde_json::json!([{
            "path": "incomingAuth.type",
            "line": 2,
            "found": "\"anonymus\"",
            "allowed": "oidc, local or anonymous",
            "suggestion": "anonymous",
        }])
    );
}

#[test]
fn rejects_duplicate_key_with_both_lines() {
    assert_error(
        "metadata: {a: b}\nmetadata: {c: d}\n",
        "metadata",
        "a duplicate key (first on line 3)",
    );
    assert_error("metadata:\n  a: b\n  a: c\n", "metadata.a", "a duplicate key");
    let errors = File::parse(
        r#"{"name": "x", "name": "y", "incomingAuth": {"type": "anonymous"}}"#,
        Format::Json,
    );
    assert_eq!(errors.unwrap_err().count(), 1);
}

#[test]
fn rejects_merge_keys() {
    let list = errors("metadata: &m {a: b}\noperational:\n  <<: *m\n");
    assert!(list.iter().any(|line| line.contains("found a merge key")), "{list:#?}");
}

#[test]
fn quoted_merge_key_is_an_ordinary_key() {
    let yaml = file("metadata: {'<<': b}\n");
    assert_eq!(yaml.metadata.get("<<").map(String::as_str), Some("b"));
    assert_eq!(File::parse(&yaml.to_yaml().unwrap(), Format::Yaml).as_ref(), Ok(&yaml));
    assert_eq!(File::parse(&serde_json::to_string(&yaml).unwrap(), Format::Json), Ok(yaml));
    assert_error("metadata: {}\n'<<': {}\n", "[\"<<\"]", "an unknown key");
}

#[test]
fn format_is_json_by_extension_otherwise_yaml() {
    for (name, format) in [
        ("a.json", Format::Json),
        ("a.JSON", Format::Json),
        ("a.yaml", Format::Yaml),
        ("a", Format::Yaml),
    ] {
        assert_eq!(Format::from_path(name.as_ref()), format, "{name}");
    }
}

#[test]
fn keys_are_camel_case_only() {
    assert_error("group_ref: x\n", "group_ref", "did you mean groupRef?");
    assert_error("GroupRef: x\n", "GroupRef", "did you mean groupRef?");
}

#[test]
fn rejects_key_without_value() {
    assert_error("backends:\n", "backends", "found no value; allowed: a list");
    assert_error("groupRef: ~\n", "groupRef", "found no value; allowed: text, or no key at all");
}

#[test]
fn unquoted_numbers_and_booleans_are_not_text() {
    assert_error("metadata: {team: 012}\n", "metadata.team", "did you mean \"012\"?");
    assert_error("metadata: {team: 1.10}\n", "metadata.team", "did you mean \"1.10\"?");
    assert_error("metadata: {team: true}\n", "metadata.team", "did you mean \"true\"?");
    assert_eq!(file("metadata: {team: yes, day: 2025-11-25}\n").metadata["team"], "yes");
    assert_eq!(file("metadata: {team: '012'}\n").metadata["team"], "012");
}

#[test]
fn rejects_yaml_1_1_booleans_with_suggestion() {
    assert_error(
        "aggregation: {excludeAllTools: yes}\n",
        "aggregation.excludeAllTools",
        "did you mean true?",
    );
    assert_error(
        "aggregation: {excludeAllTools: 'off'}\n",
        "aggregation.excludeAllTools",
        "did you mean false?",
    );
}

#[test]
fn rejects_documents_that_are_not_maps() {
    for text in ["[]", "x", "7"] {
        assert_eq!(document_errors(text).len(), 1, "{text}");
    }
}

#[test]
fn rejects_document_above_four_mebibytes_unread() {
    let text = format!("{MINIMAL}#{}\n", "x".repeat(4 * 1024 * 1024));
    assert!(document_errors(&text)[0].contains("allowed: at most 4194304 bytes"));
}

#[test]
fn keeps_200_errors_and_counts_the_rest() {
    let unknown: Vec<_> = (0..300).map(|n| format!("zzz{n}: 1")).collect();
    let text = format!("{MINIMAL}{}\n", unknown.join("\n"));
    let errors = File::parse(&text, Format::Yaml).unwrap_err();
    assert_eq!((errors.as_slice().len(), errors.count()), (200, 300));
    assert!(errors.to_string().ends_with("and 100 more"));
}

#[test]
fn bounds_errors_and_warnings_of_hostile_documents() {
    let unknown: Vec<_> = (0..90_000).map(|n| format!("zzz{n}: 1")).collect();
    let text = format!("{MINIMAL}{}\n", unknown.join("\n"));
    assert_eq!(File::parse(&text, Format::Yaml).unwrap_err().count(), 90_000);
    let entries: Vec<_> = (0..30_000).map(|n| format!("{{workload: w{n}}}")).collect();
    let text = format!("{MINIMAL}aggregation: {{tools: [{}]}}\n", entries.join(", "));
    assert_eq!(File::parse(&text, Format::Yaml).unwrap().warnings().len(), 200);
}

#[test]
fn accepts_crlf_byte_order_mark_and_json_tabs() {
    let text = format!("\u{feff}{}", MINIMAL.replace('\n', "\r\n"));
    assert_eq!(File::parse(&text, Format::Yaml).unwrap(), file(""));
    let json =
        "{\n\t\"name\": \"x\",\n\t\"incomingAuth\": {\n\t\t\"type\": \"anonymous\"\n\t}\n}\n";
    for format in [Format::Yaml, Format::Json] {
        assert_eq!(File::parse(json, format).unwrap(), file(""), "{format:?}");
    }
}

#[test]
fn file_rejects_references_for_operator() {
    assert_error(
        "compositeToolRefs: [{name: a}]\n",
        "compositeToolRefs",
        "only the operator resolves references",
    );
    assert_error(
        "aggregation: {tools: [{workload: a, toolConfigRef: {name: b}}]}\n",
        "aggregation.tools[0].toolConfigRef",
        "only the operator resolves references",
    );
}

#[test]
fn resource_accepts_references_without_authorization_server() {
    let config = config(
        "compositeToolRefs: [{name: a}]\naggregation: {tools: [{workload: a, toolConfigRef: {name: b}}]}\n",
    );
    assert_eq!(config.composite_tool_refs[0].name, "a");
    assert_eq!(config.aggregation.tools[0].tool_config_ref.as_ref().unwrap().name, "b");
    let errors = Config::parse("authServer: {}\n", Format::Yaml).unwrap_err();
    assert_eq!(errors.count(), 1);
    assert!(errors.to_string().contains("spec.authServerConfig"), "{errors}");
}

#[test]
fn empty_resource_has_defaults() {
    let config = config("{}");
    assert_eq!(config.name, None);
    assert_eq!(config.incoming_auth, None);
    assert_eq!(config.operational, vmcp_config::Operational::default());
}

#[test]
fn references_have_unique_names() {
    for (text, words) in [
        ("compositeToolRefs: [{name: ''}]\n", "compositeToolRefs[0].name: found \"\""),
        ("compositeToolRefs: [{}]\n", "compositeToolRefs[0].name: found no value"),
        (
            "compositeToolRefs: [{name: a}, {name: a}]\n",
            "compositeToolRefs[1].name: found the duplicate value \"a\"",
        ),
    ] {
        let errors = Config::parse(text, Format::Yaml).unwrap_err().to_string();
        assert!(errors.contains(words), "{errors}");
    }
}

#[test]
fn resource_follows_rules_between_sections() {
    let backend = "{name: a, url: 'http://a', transport: sse}";
    let tool = "{name: t, steps: [{id: a, tool: w.t}]}";
    for (text, words) in [
        (
            format!("backends: [{backend}, {backend}]"),
            "backends[1].name: found the duplicate value \"a\"",
        ),
        (
            format!("compositeTools: [{tool}, {tool}]"),
            "compositeTools[1].name: found the duplicate value \"t\"",
        ),
        (
            format!("outgoingAuth: {{source: discovered}}\nbackends: [{backend}]"),
            "backends only with outgoingAuth.source: inline",
        ),
    ] {
        let errors = Config::parse(&text, Format::Yaml).unwrap_err();
        assert!(errors.to_string().contains(words), "{errors}");
        assert_eq!(errors.count(), 1);
    }
}

#[test]
fn serde_reads_the_same_as_the_parser() {
    let file: File =
        serde_json::from_str(r#"{"name": "x", "incomingAuth": {"type": "anonymous"}}"#).unwrap();
    assert_eq!(file, crate::support::file(""));
    let error =
        serde_json::from_str::<Config>(r#"{"backend": [], "audits": {}}"#).unwrap_err().to_string();
    assert!(
        error.contains("did you mean backends?") && error.contains("did you mean audit?"),
        "{error}"
    );
}

/// Each optional text of the document with every key, beside what it rules out.
#[test]
fn empty_optional_text_is_left_out() {
    for more in [
        "groupRef: ''\noutgoingAuth: {source: inline, default: {type: token_exchange, tokenExchange: {tokenUrl: \
         'https://t', clientId: c, clientSecretEnv: A, clientSecret: '', subjectProviderName: '', \
         externalTokenHeaderName: '', subjectTokenType: ''}}}\n",
        "outgoingAuth: {source: inline, default: {type: header_injection, headerInjection: {headerName: X, \
         headerValue: '', headerValueEnv: A}}}\n",
        "outgoingAuth: {source: inline, default: {type: aws_sts, awsSts: {region: eu-west-1, subjectProviderName: '', \
         fallbackRoleArn: '', roleMappings: [{roleArn: 'arn:aws:iam::123456789012:role/a', claim: a, matcher: ''}]}}}\n",
        "backends: [{name: a, url: 'http://a', transport: sse, type: '', caBundlePath: ''}]\n",
        "operational: {logLevel: ''}\naudit: {logFile: '', component: ''}\n",
        "telemetry: {endpoint: '', caCertPath: '', serviceName: '', serviceVersion: ''}\n",
        "sessionStorage: {provider: memory, address: '', keyPrefix: ''}\n",
        "aggregation: {conflictResolutionConfig: {prefixFormat: ''}}\n",
        "outgoingAuth: {source: inline, default: {type: aws_sts, awsSts: {region: eu-west-1, fallbackRoleArn: \
         'arn:aws:iam::123456789012:role/a', roleClaim: '', service: '', sessionNameClaim: ''}}}\n",
    ] {
        let file = crate::support::file(more);
        let written = file.to_yaml().unwrap();
        assert_eq!(File::parse(&written, Format::Yaml).unwrap(), file, "{written}");
    }
    let text = "name: x\nincomingAuth: {type: oidc, oidc: {issuer: 'https://me', clientId: c, audience: a, resource: '', \
                jwksUrl: '', introspectionUrl: '', clientSecretEnv: ''}, authz: {type: cedar, policies: [p], \
                entitiesJson: '', primaryUpstreamProvider: ''}}\nauthServer: {issuer: 'https://me', \
                authorizationEndpointBaseUrl: '', upstreamProviders: [{name: a, type: oauth2, oauth2Config: \
                {authorizationEndpoint: 'https://a', tokenEndpoint: 'https://t', clientId: '', redirectUri: '', \
                dcrConfig: {registrationEndpoint: 'https://r', discoveryUrl: '', softwareId: ''}}}]}\n";
    File::parse(text, Format::Yaml).unwrap_or_else(|errors| panic!("{errors}"));
}
