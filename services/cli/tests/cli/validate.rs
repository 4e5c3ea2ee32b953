use serde_json::{Value, json};
use vmcp_test_support::McpBackend;

use crate::login::signing_key;
use crate::program::{CommandOutput, Folder, vmcp, vmcp_with, while_default_is_taken};

fn validate(text: &str, arguments: &[&str]) -> CommandOutput {
    let folder = Folder::new();
    let file = folder.write("vmcp.yaml", text);
    vmcp(&[&["validate", "-c", &file][..], arguments].concat())
}

fn as_json(ended: &CommandOutput) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{ended:?}"))
}

const INVALID: &str = "name: x
incomingAuth: {type: anonymous}
backend: []
operational: {timeouts: {default: 30}}
";

#[test]
fn summarizes_valid_file() {
    let text = "name: x\nincomingAuth: {type: anonymous}\ngroupRef: team\n\
                operational: {timeouts: {perWorkload: {y: 1s}}}\n";
    let ended = validate(text, &[]);
    assert_eq!(ended.code, 0);
    assert!(ended.out.contains("is valid") && ended.out.contains("group            team"));
    assert!(ended.err.contains("warning: operational.timeouts.perWorkload.y: no backend"));
    let json = as_json(&validate(text, &["-o", "json"]));
    assert_eq!(json["valid"], true);
    assert_eq!(json["summary"]["group"], "team");
    assert_eq!(json["warnings"][0]["path"], "operational.timeouts.perWorkload.y");
}

#[test]
fn reports_all_errors_with_line_and_remedy() {
    let ended = validate(INVALID, &[]);
    assert_eq!((ended.code, &*ended.out), (1, ""));
    assert!(ended.err.contains("line 3: backend: found an unknown key"), "{ended:?}");
    assert!(ended.err.contains("(did you mean backends?)"), "{ended:?}");
    assert!(
        ended.err.contains("line 4: operational.timeouts.default: found the number 30"),
        "{ended:?}"
    );
    let ended = validate(INVALID, &["-o", "json"]);
    assert_eq!((ended.code, &*ended.err), (1, ""));
    let json = as_json(&ended);
    assert_eq!(json["valid"], false);
    assert_eq!(json["mistakes"][0]["line"], 3);
    assert_eq!(json["mistakes"][0]["suggestion"], "backends");
    assert_eq!(json["mistakes"].as_array().unwrap().len(), 2);
}

#[test]
fn reads_named_files_and_reports_unsupported_sections() {
    let folder = Folder::new();
    let garbage = folder.write("garbage.pem", "no certificate");
    let text = format!(
        "name: x\nincomingAuth: {{type: anonymous}}\noperational: {{failureHandling: {{statusReportingInterval: 31s}}}}\nbackends:\n\
         - {{name: a, url: \"https://a.test/mcp\", transport: sse, type: entry, caBundlePath: /no/a.pem}}\n\
         - {{name: b, url: \"https://b.test/mcp\", transport: sse, type: entry, caBundlePath: {garbage}}}\n"
    );
    let ended = validate(&text, &[]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("backends[0].caBundlePath: found /no/a.pem"), "{ended:?}");
    assert!(ended.err.contains(&format!("backends[1].caBundlePath: found {garbage}")));
    let path = "operational.failureHandling.statusReportingInterval";
    let refusal = format!("{path}: applies only in Kubernetes");
    assert!(ended.err.contains(&refusal), "{ended:?}");
    let json = as_json(&validate(&text, &["-o", "json"]));
    assert_eq!(json["unsupported"][0]["path"], path);
    assert_eq!(json["mistakes"][1]["path"], "backends[1].caBundlePath");
}

#[test]
fn connect_reports_backend_health_and_conflict_resolution() {
    let (one, two) = (McpBackend::stateless(&["x", "y"]), McpBackend::stateless(&["x"]));
    let text = format!(
        "name: x\nincomingAuth: {{type: anonymous}}\n\
         aggregation: {{conflictResolution: priority, conflictResolutionConfig: {{priorityOrder: [two]}}}}\n\
         backends:\n\
         - {{name: one, url: \"{}\", transport: streamable-http}}\n\
         - {{name: two, url: \"{}\", transport: streamable-http}}\n",
        one.url(),
        two.url()
    );
    let ended = validate(&text, &["--connect", "-o", "json"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let json = as_json(&ended);
    let found = &json["backends"][0];
    assert_eq!(found["name"], "one");
    assert_eq!(found["reachable"], true);
    assert_eq!(found["revision"], "2026-07-28");
    assert_eq!(found["offers"]["tools"], 2);
    assert_eq!(
        json["conflicts"],
        json!([{
            "kind": "tool",
            "name": "x",
            "contenders": ["two", "one"],
            "resolution": "two has it: it comes first in priorityOrder",
        }])
    );
    let ended = validate(&text, &["--connect"]);
    assert!(ended.out.contains("clients see 2 tools"), "{ended:?}");
    assert!(ended.out.contains("tool x: wanted by two, one: two has it"), "{ended:?}");
}

#[test]
fn failed_backend_fails_check_only_in_fail_mode() {
    // Port 1 has no listener.
    let text = |mode: &str| {
        format!(
            "name: x\nincomingAuth: {{type: anonymous}}\n\
             operational: {{failureHandling: {{partialFailureMode: {mode}}}}}\n\
             backends: [{{name: gone, url: \"http://127.0.0.1:1/mcp\", transport: streamable-http}}]\n"
        )
    };
    let strict = validate(&text("fail"), &["--connect"]);
    assert_eq!(strict.code, 1);
    assert!(strict.out.contains("gone") && strict.out.contains("unavailable"), "{strict:?}");
    assert!(strict.err.contains("partialFailureMode: fail"), "{strict:?}");
    let strict = validate(&text("fail"), &["--connect", "-o", "json"]);
    assert_eq!((strict.code, &*strict.err), (1, ""));
    assert_eq!(as_json(&strict)["valid"], false);
    let none = validate(&text("best_effort"), &["--connect"]);
    assert_eq!((none.code, &*none.err), (1, "no backend answers\n"));
    assert_eq!(validate(&text("fail"), &[]).code, 0, "nobody is asked without --connect");
}

#[test]
fn readmes_contain_valid_configurations() {
    let readmes = [include_str!("../../../../README.md"), include_str!("../../README.md")];
    let variables = [
        ("DOCS_KEY", "a"),
        ("EXCHANGE_SECRET", "b"),
        ("GITHUB_TOKEN", "c"),
        ("EMBEDDING_API_KEY", "d"),
    ];
    let examples = readmes.map(|readme| readme.split("```yaml\n").skip(1).collect::<Vec<_>>());
    assert_eq!(examples.each_ref().map(Vec::len), [1, 7]);
    for example in examples.into_iter().flatten() {
        let (example, _) = example.split_once("```").unwrap();
        let folder = Folder::new();
        for name in ["hmac", "redis", "corp", "code"] {
            folder.write(name, "n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=");
        }
        folder.write("key.pem", &signing_key());
        let mut example = example.replace("/run/secrets/", &folder.path(""));
        if !example.starts_with("name:") {
            // A part of a file.
            example.insert_str(0, "name: x\nincomingAuth: {type: anonymous}\n");
        }
        let file = folder.write("vmcp.yaml", &example);
        let ended = vmcp_with(&["validate", "-c", &file], &variables);
        assert_eq!((ended.code, &*ended.err), (0, ""), "{example}");
    }
}

#[test]
fn connect_reports_unmatched_rules() {
    let one = McpBackend::stateless(&["x", "y"]);
    let text = format!(
        "name: x\nincomingAuth: {{type: anonymous}}\n\
         aggregation: {{tools: [{{workload: one, filter: [new, x, y], overrides: {{x: {{name: new}}, z: {{name: w}}}}}}]}}\n\
         backends: [{{name: one, url: \"{}\", transport: streamable-http}}]\n",
        one.url()
    );
    let ended = validate(&text, &["--connect", "-o", "json"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let rule = |list, name| json!({"backend": "one", "list": list, "name": name});
    assert_eq!(
        as_json(&ended)["unmatchedRules"],
        json!([rule("filter", "x"), rule("overrides", "z")])
    );
    let ended = validate(&text, &["--connect"]);
    for line in [
        "aggregation.tools: filter of one names x: no tool is called so after overrides",
        "aggregation.tools: overrides of one name z: the backend itself has no tool of that name",
    ] {
        assert!(ended.out.lines().any(|found| found == line), "{line}: {ended:?}");
    }
}

#[test]
fn warns_of_names_that_clients_may_reject() {
    let one = McpBackend::stateless(&["x", "gr\u{fc}n"]);
    let file = |format: &str| {
        format!(
            "name: x\nincomingAuth: {{type: anonymous}}\n\
             aggregation: {{conflictResolutionConfig: {{prefixFormat: \"{format}\"}}}}\n\
             backends: [{{name: one, url: \"{}\", transport: streamable-http}}]\n",
            one.url()
        )
    };
    let ended = validate(&file("{workload}_"), &["--connect", "-o", "json"]);
    assert_eq!(as_json(&ended)["nonconformingNames"], json!(["one_gr\u{fc}n"]));
    assert_eq!(as_json(&ended)["warnings"], json!([]));
    let ended = validate(&file("{workload}/"), &["--connect"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.err.contains("prefixFormat: tool names begin with it"), "{ended:?}");
    let told = ended.out.lines().filter(|line| line.contains("some clients refuse names")).count();
    assert_eq!(told, 2, "{ended:?}");
}

#[test]
fn reports_errors_of_all_sections_together() {
    let text = "name: x\nincomingAuth:\n  type: oidc\n  oidc: {issuer: \"https://i.test\", clientId: c, audience: \
                \"https://mcp.test/mcp\", clientSecretEnv: NOT_SET}\n  authz: {type: cedar, policies: \
                [\"permit(principal, action);\", \"permit(\", \"forbid(\"]}\n\
                operational: {timeouts: {default: 30}}\nbackend: []\naudit: {enabled: true, logFile: /no/folder/a.log}\n\
                outgoingAuth: {source: inline, backends: {a: {type: header_injection, headerInjection: {headerName: X, \
                headerValueEnv: NOT_SET}}, b: {type: token_exchange, tokenExchange: {tokenUrl: \"http://t.test\", clientId: c, \
                clientSecretEnv: NOT_SET, externalTokenHeaderName: Host}}}}\n\
                backends:\n- {name: a, url: 7, transport: sse, type: entry, caBundlePath: /no/a.pem}\n\
                - {name: b, url: \"https://b.test\", transport: sse, type: entry, caBundlePath: /no/b.pem}\n";
    let json = as_json(&validate(text, &["-o", "json"]));
    let mut paths: Vec<_> = json["mistakes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["path"].as_str().unwrap())
        .collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [
            "audit.logFile",
            "backend",
            "backends[0].caBundlePath",
            "backends[0].url",
            "backends[1].caBundlePath",
            "incomingAuth.authz.policies[0]",
            "incomingAuth.authz.policies[1]",
            "incomingAuth.authz.policies[2]",
            "incomingAuth.oidc.clientSecretEnv",
            "operational.timeouts.default",
            "outgoingAuth.backends.a.headerInjection.headerValueEnv",
            "outgoingAuth.backends.b.tokenExchange.clientSecretEnv",
            "outgoingAuth.backends.b.tokenExchange.externalTokenHeaderName",
            "outgoingAuth.backends.b.tokenExchange.tokenUrl",
        ],
        "{json:#}"
    );
}

#[test]
fn reports_errors_that_would_stop_serve() {
    let anonymous = "name: x\nincomingAuth: {type: anonymous}\n";
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ended = validate(anonymous, &["--port", &port]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.err.contains(&format!("--port: found 127.0.0.1:{port}: ")), "{ended:?}");
    assert_eq!(validate(anonymous, &["--port", "0"]).code, 0);
    for (arguments, code) in [
        (&["--host", "0.0.0.0"][..], 1),
        (&["--host", "0.0.0.0", "--allow-anonymous-network"], 0),
        (&["--seal-key", "/no/key"], 2),
    ] {
        assert_eq!(validate(anonymous, arguments).code, code, "{arguments:?}");
    }
    let telemetry = format!("{anonymous}telemetry: {{metricsEnabled: true, endpoint: \"a:1\"}}\n");
    assert_eq!(validate(&telemetry, &[]).code, 0);
}

#[test]
fn validates_administration_address() {
    let anonymous = "name: x\nincomingAuth: {type: anonymous}\n";
    let network = ["--host", "0.0.0.0", "--allow-anonymous-network"];
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let found = format!("--admin-listen: found {address}: ");
    for more in [&[][..], &["--connect"], &network] {
        let ended = validate(anonymous, &[&["--admin-listen", &address][..], more].concat());
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(ended.err.contains(&found), "{ended:?}");
    }
    drop(taken);
    for more in [&[][..], &["--connect"], &network] {
        let ended = validate(anonymous, &[&["--admin-listen", &address][..], more].concat());
        assert_eq!((ended.code, &*ended.err), (0, ""), "{ended:?}");
    }
    // Clients and administrators cannot have one address.
    let port = address.rsplit(':').next().unwrap();
    let ended = validate(anonymous, &["--port", port, "--admin-listen", &address]);
    assert!(ended.code == 1 && ended.err.contains(&found), "{ended:?}");
}

#[test]
fn taken_default_of_administration_is_a_warning() {
    let anonymous = "name: x\nincomingAuth: {type: anonymous}\n";
    for more in [&[][..], &["--connect"]] {
        let network = [&["--host", "0.0.0.0", "--allow-anonymous-network"][..], more].concat();
        while_default_is_taken(|| {
            let ended = validate(anonymous, &network);
            assert_eq!(ended.code, 0, "{ended:?}");
            ended.err.contains("warning: --admin-listen: 127.0.0.1:4484: ")
        });
    }
    // A server that other machines do not reach has no such listener.
    let ended = validate(anonymous, &["--host", "127.0.0.1"]);
    assert_eq!((ended.code, &*ended.err), (0, ""), "{ended:?}");
}

#[test]
fn warns_of_policies_without_matching_names() {
    let one = McpBackend::stateless(&["x"]);
    let file = |policies: &str| {
        format!(
            "name: gate\nincomingAuth: {{type: anonymous, authz: {{type: cedar, policies: ['{policies}']}}}}\n\
             backends: [{{name: one, url: \"{}\", transport: streamable-http}}]\n",
            one.url()
        )
    };
    for (policy, says) in [
        (
            "permit(principal in Grup::\"eng\", action, resource);",
            "unrecognized entity type `Grup` (did you mean `Group`?)",
        ),
        (
            "permit(principal, action == Action::\"cal_tool\", resource);",
            "unrecognized action `Action::\"cal_tool\"`",
        ),
    ] {
        let ended = validate(&file(policy), &[]);
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(
            ended.err.contains("incomingAuth.authz.policies[0]") && ended.err.contains(says),
            "{ended:?}"
        );
    }
    let policies = "permit(principal, action, resource); forbid(principal, action, resource == Tool::\"x\"); \
                    forbid(principal, action, resource == Tool::\"one_x\");";
    let ended = validate(&file(policies), &["--connect"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let line = "incomingAuth.authz.policies[0]: forbids tool x: no backend has it: use the name that clients see";
    assert_eq!(
        ended.out.lines().filter(|found| found.contains("forbids tool")).collect::<Vec<_>>(),
        [line]
    );
    let json = as_json(&validate(&file(policies), &["--connect", "-o", "json"]));
    assert_eq!(json["unmatchedPolicyNames"][0]["name"], "x");
    assert_eq!(validate(&file(policies), &[]).code, 0);
}

#[test]
fn warns_of_policies_for_unknown_backends() {
    let text = r#"name: x
incomingAuth:
  type: local
  authz:
    type: cedar
    policies:
      - 'permit(principal, action, resource);'
      - 'forbid(principal, action, resource) when { ["a", "b"].contains(resource.backend) };'
backends: [{name: a, url: "http://127.0.0.1:1/mcp", transport: streamable-http}]
"#;
    let ended = validate(text, &[]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let said = [&*ended.out, &*ended.err].concat();
    assert!(said.contains("incomingAuth.authz.policies[1]: forbids by backend \"b\""), "{said}");
    assert!(!said.contains("by backend \"a\""), "{said}");
    let never = text.replace(
        r#"["a", "b"].contains(resource.backend)"#,
        r#"resource.generation == "2025-03-26""#,
    );
    let ended = validate(&never, &[]);
    assert!(
        ended.code == 1 && [&*ended.out, &*ended.err].concat().contains("2025-11-25"),
        "{ended:?}"
    );
}
