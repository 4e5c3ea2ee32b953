//! Credentials for backends, and circuit breakers.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::Instant;
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::Behavior;

use crate::http::get;
use crate::incoming::ask;
use crate::issuer::Issuer;
use crate::mcp::{Stateful, text};
use crate::program::{Folder, ServerProcess, vmcp_with};

const START: &str = "name: x\nincomingAuth: {type: anonymous}\n";

fn backends(named: &[(&str, &McpBackend)]) -> String {
    let one = |(name, backend): &(&str, &McpBackend)| {
        format!("- {{name: {name}, url: \"{}\", transport: streamable-http}}\n", backend.url())
    };
    format!("backends:\n{}", named.iter().map(one).collect::<String>())
}

fn status(port: u16) -> Value {
    get(port, "/status")
}

#[test]
fn sends_backend_header_or_default_header() {
    let folder = Folder::new();
    let (own, other) = (McpBackend::stateless(&["x"]), McpBackend::stateless(&["x"]));
    let outgoing = "outgoingAuth:\n  source: inline\n  default: {type: header_injection, \
                    headerInjection: {headerName: X-Api-Key, headerValue: canary-default}}\n  \
                    backends: {own: {type: header_injection, headerInjection: {headerName: \
                    Authorization, headerValueEnv: OWN_KEY}}}\n";
    let text_of = START.to_owned() + &backends(&[("own", &own), ("other", &other)]) + outgoing;
    let file = folder.write("vmcp.yaml", &text_of);
    let variables = [("OWN_KEY", "Bearer canary-own")];
    let (server, port) = ServerProcess::serve_with(&file, &[], &variables);
    let session = Stateful::open(port);
    assert_eq!(text(&session.call("own_x", &json!({}))), "done");
    assert_eq!(text(&session.call("other_x", &json!({}))), "done");
    for request in own.requests() {
        assert_eq!(request.header("authorization"), "Bearer canary-own");
        assert!(!request.text().contains("canary-default"), "{request:?}");
    }
    for request in other.requests() {
        assert_eq!(request.header("x-api-key"), "canary-default");
        assert!(!request.text().contains("canary-own"), "{request:?}");
    }
    let shown = status(port);
    assert_eq!(shown["backends"][0]["auth_type"], "header_injection");
    let (_, log) = server.stop();
    assert!(!log.contains("canary") && !shown.to_string().contains("canary"), "{log}");
}

#[test]
fn headers_and_urls_read_listed_variables() {
    let folder = Folder::new();
    let backend = McpBackend::stateless(&["x"]);
    let text_of = format!(
        "{START}variables: [BACKEND_PORT, KEY]\nbackends:\n- name: a\n  url: \"http://127.0.0.1:${{BACKEND_PORT}}/mcp\"\n  \
         transport: streamable-http\n  headers: {{Authorization: \"Bearer ${{KEY}}\", X-Org: acme}}\n"
    );
    let file = folder.write("vmcp.yaml", &text_of);
    let port_of = backend.port().to_string();
    let variables = [("BACKEND_PORT", &*port_of), ("KEY", "canary")];
    let (server, port) = ServerProcess::serve_with(&file, &[], &variables);
    assert_eq!(text(&Stateful::open(port).call("a_x", &json!({}))), "done");
    for request in backend.requests() {
        assert_eq!(request.header("authorization"), "Bearer canary");
        assert_eq!(request.header("x-org"), "acme");
    }
    let shown = status(port);
    assert_eq!(shown["backends"][0]["url"], "http://127.0.0.1:${BACKEND_PORT}/mcp");
    let (_, log) = server.stop();
    assert!(!log.contains("canary") && !shown.to_string().contains("canary"), "{log}");
    let unset = vmcp_with(&["validate", "-c", &file], &[("KEY", "a\nb")]);
    assert_eq!(unset.code, 1);
    for says in [
        "backends[0].url: found http://127.0.0.1:${BACKEND_PORT}/mcp; allowed: a usable URL (the environment variable \
         BACKEND_PORT is not set)",
        "backends[0].headers.Authorization: found the value; allowed: text that a header can have",
    ] {
        assert!(unset.err.contains(says), "{unset:?}");
    }
    let both = text_of.clone()
        + "outgoingAuth: {source: inline, default: {type: header_injection, headerInjection: {headerName: X-Org, \
           headerValue: a}}}\n";
    let file = folder.write("both.yaml", &both);
    let refused = vmcp_with(&["validate", "-c", &file], &variables);
    for header in ["Authorization", "X-Org"] {
        let says = format!(
            "backends[0].headers.{header}: found a header that header_injection sets or removes"
        );
        assert!(refused.err.contains(&says), "{refused:?}");
    }
}

#[test]
fn exchanges_each_callers_token_for_backend() {
    let (folder, backend, issuer) = (Folder::new(), McpBackend::stateless(&["x"]), Issuer::start());
    let outgoing = format!(
        "outgoingAuth:\n  source: inline\n  default:\n    type: token_exchange\n    tokenExchange:\n      \
         tokenUrl: \"{}/token\"\n      audience: tools\n      scopes: [read, write]\n      clientId: client\n      \
         clientSecretEnv: SECRET\n      subjectTokenType: jwt\n      externalTokenHeaderName: X-Token\n",
        issuer.url
    );
    let text_of =
        format!("name: x\n{}", issuer.section("")) + &backends(&[("a", &backend)]) + &outgoing;
    let path = folder.write("vmcp.yaml", &text_of);
    let (server, port) = ServerProcess::serve_with(&path, &[], &[("SECRET", "s3cret")]);
    for user in ["ann", "bob", "ann"] {
        let token = issuer.token(user, &json!({}));
        let listed = ask(port, Some(&token), "tools/list", &json!({})).message();
        assert_eq!(listed["result"]["tools"][0]["name"], "a_x", "{listed}");
        let call = json!({"name": "a_x", "arguments": {}});
        assert_eq!(text(&ask(port, Some(&token), "tools/call", &call).message()), "done");
        let mut requests = backend.requests().into_iter();
        let last = requests.rfind(|it| it.message()["method"] == "tools/call").unwrap();
        assert_eq!(last.header("x-token"), format!("Bearer for-{user}"));
    }
    assert!(backend.requests().iter().all(|request| request.header("authorization").is_empty()));
    let forms = issuer.forms();
    let of = |form: &str, pair: &str| form.split('&').any(|found| found == pair);
    let exchanges: Vec<_> = forms.iter().filter(|form| form.contains("subject_token=")).collect();
    // Ann comes with another token the second time.
    assert!(exchanges.len() >= 2, "{forms:?}");
    for form in exchanges {
        assert!(of(form, "audience=tools") && of(form, "scope=read+write"), "{form}");
        assert!(
            of(form, "subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Ajwt"),
            "{form}"
        );
    }
    let held = status(port)["cache_entries"].clone();
    assert!(held["exchanged_tokens"].as_u64() >= Some(2) && held["caller_offers"] == 2, "{held}");
    let (_, log) = server.stop();
    assert!(!log.contains("for-ann") && !log.contains("s3cret"), "{log}");
}

#[test]
fn rejects_token_exchange_for_anonymous_callers() {
    let (folder, theirs) = (Folder::new(), McpBackend::stateless(&["x"]));
    let outgoing = "outgoingAuth: {source: inline, backends: {theirs: {type: token_exchange, tokenExchange: \
                    {tokenUrl: \"https://idp.test/token\"}}}}\n";
    let text_of = START.to_owned() + &backends(&[("theirs", &theirs)]) + outgoing;
    let file = folder.write("vmcp.yaml", &text_of);
    for command in ["validate", "serve"] {
        let ended = vmcp_with(&[command, "--config", &file], &[]);
        assert_eq!(ended.code, 1, "{ended:?}");
        let says = "outgoingAuth.backends.theirs.type: found token_exchange with incomingAuth.type: anonymous";
        assert!(ended.err.contains(says), "{ended:?}");
    }
}

#[test]
fn reports_unusable_credentials_with_paths() {
    let folder = Folder::new();
    let of = |strategy: &str| {
        format!(
            "{START}outgoingAuth: {{source: inline, default: {{type: header_injection, headerInjection: {strategy}}}}}\n"
        )
    };
    for (strategy, says) in [
        (
            "{headerName: X-A, headerValueEnv: NOT_SET}",
            "headerValueEnv: found NOT_SET, which is not set",
        ),
        ("{headerName: X-A, headerValueEnv: EMPTY}", "headerValueEnv: found EMPTY, which is empty"),
        ("{headerName: X-A, headerValueEnv: LINES}", "contains a line break"),
        ("{headerName: Host, headerValue: hunter2}", "headerName: found \"Host\""),
        ("{headerName: Mcp-Session-Id, headerValue: hunter2}", "is reserved for the transport"),
    ] {
        let file = folder.write("vmcp.yaml", &of(strategy));
        let variables = [("EMPTY", ""), ("LINES", "hunter2\n")];
        let ended = vmcp_with(&["validate", "--config", &file], &variables);
        assert_eq!(ended.code, 1, "{strategy}: {ended:?}");
        assert!(ended.err.contains("outgoingAuth.default.headerInjection"), "{ended:?}");
        assert!(ended.err.contains(says), "{says}: {ended:?}");
        assert!(!ended.err.contains("hunter2"), "{ended:?}");
    }
}

#[test]
fn rejects_unusable_strategies_with_remedy() {
    let folder = Folder::new();
    for (strategy, at, says) in [
        (
            "{type: token_exchange, tokenExchange: {tokenUrl: \"http://idp.test/token\"}}",
            "tokenExchange.tokenUrl",
            "https://",
        ),
        (
            "{type: token_exchange, tokenExchange: {tokenUrl: \"https://idp.test\", externalTokenHeaderName: Host}}",
            "tokenExchange.externalTokenHeaderName",
            "is reserved for the transport",
        ),
        (
            "{type: aws_sts, awsSts: {region: eu-west-1, roleMappings: [{roleArn: \"arn:aws:iam::123456789012:role/a\", \
             matcher: \"claims.\"}]}}",
            "awsSts.roleMappings[0].matcher",
            "CEL",
        ),
        (
            "{type: aws_sts, awsSts: {region: eu-west-1, fallbackRoleArn: \"arn:aws:iam::123456789012:role/a\", \
             service: \"a b\"}}",
            "awsSts.service",
            "service name",
        ),
    ] {
        let text_of = format!("{START}outgoingAuth: {{source: inline, default: {strategy}}}\n");
        let ended = vmcp_with(&["validate", "--config", &folder.write("vmcp.yaml", &text_of)], &[]);
        assert_eq!(ended.code, 1, "{strategy}: {ended:?}");
        assert!(ended.err.contains(&format!("outgoingAuth.default.{at}")), "{ended:?}");
        assert!(ended.err.contains(says), "{says}: {ended:?}");
    }
}

#[test]
fn reads_sts_endpoint_from_aws_variable() {
    let folder = Folder::new();
    let strategy = "{type: aws_sts, awsSts: {region: eu-west-1, fallbackRoleArn: \"arn:aws:iam::123456789012:role/a\"}}";
    let start = "name: x\nincomingAuth: {type: oidc, oidc: {issuer: \"https://i.test\", clientId: c, audience: \
                 \"https://mcp.test/mcp\"}}\n";
    let text_of = format!("{start}outgoingAuth: {{source: inline, default: {strategy}}}\n");
    let file = folder.write("vmcp.yaml", &text_of);
    for (endpoint, code) in [
        ("http://127.0.0.1:4566", 0),
        ("https://vpce-1.sts.eu-west-1.vpce.amazonaws.com", 0),
        ("http://sts.internal", 1),
        ("sts.internal", 1),
    ] {
        let variables = [("AWS_ENDPOINT_URL_STS", endpoint)];
        let ended = vmcp_with(&["validate", "--config", &file], &variables);
        assert_eq!(ended.code, code, "{endpoint}: {ended:?}");
        let said = ended.err.contains("outgoingAuth.default.awsSts: found AWS_ENDPOINT_URL_STS=");
        assert_eq!(said, code == 1, "{endpoint}: {ended:?}");
    }
}

#[test]
fn opens_circuit_of_failing_backend_until_recovery() {
    let folder = Folder::new();
    let backend = McpBackend::stateless(&["x"]);
    let breaker = "operational: {failureHandling: {circuitBreaker: \
                   {enabled: true, failureThreshold: 2, timeout: 1s}}}\n";
    let text_of = START.to_owned() + &backends(&[("a", &backend)]) + breaker;
    let (_server, port) = ServerProcess::serve(&folder.write("vmcp.yaml", &text_of), &[]);
    let session = Stateful::open(port);
    assert_eq!(text(&session.call("a_x", &json!({}))), "done");
    assert_eq!(status(port)["backends"][0]["circuit"]["state"], "closed");
    backend.set_behavior(Behavior::Status(StatusCode::SERVICE_UNAVAILABLE));
    let mut refused = Value::Null;
    for _ in 0..20 {
        refused = session.call("a_x", &json!({}));
        if refused["error"]["data"]["retryAfterSeconds"].is_number() {
            break;
        }
    }
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(message.contains("backend a is unavailable: circuit open"), "{message}");
    let circuit = &status(port)["backends"][0]["circuit"];
    assert!(circuit["last_changed"].as_str().unwrap().ends_with('Z'), "{circuit}");
    backend.set_behavior(Behavior::Normal);
    let patience = Instant::now() + Duration::from_secs(20);
    let mut back = false;
    while !back && Instant::now() < patience {
        back = session.call("a_x", &json!({}))["result"].is_object();
    }
    assert!(back, "the circuit stays open: {}", status(port));
    assert_eq!(status(port)["backends"][0]["circuit"]["state"], "closed");
}

#[test]
fn missing_credentials_do_not_make_tool_unknown() {
    let (folder, backend, issuer) = (Folder::new(), McpBackend::stateless(&["x"]), Issuer::start());
    // The token endpoint is unreachable, so the caller's list of tools is unknown.
    let outgoing = "outgoingAuth: {source: inline, default: {type: token_exchange, \
                    tokenExchange: {tokenUrl: \"http://127.0.0.1:1/token\", clientId: client}}}\n\
                    operational: {failureHandling: {partialFailureMode: best_effort}}\n";
    let text_of =
        format!("name: x\n{}", issuer.section("")) + &backends(&[("a", &backend)]) + outgoing;
    let (_server, port) = ServerProcess::serve(&folder.write("vmcp.yaml", &text_of), &[]);
    let token = issuer.token("ann", &json!({}));
    let told = |tool: &str| {
        let call = json!({"name": tool, "arguments": {}});
        ask(port, Some(&token), "tools/call", &call).message()["error"].clone()
    };
    assert_eq!(told("a_x")["data"], json!({"backend": "a", "retryable": true}), "{}", told("a_x"));
    assert_eq!(told("b_x")["message"], "unknown tool: b_x");
}
