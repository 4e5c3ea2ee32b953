//! `vmcp authz explain`.

use serde_json::{Value, json};
use vmcp_test_support::McpBackend;

use crate::program::{CommandOutput, Folder, vmcp};

const POLICIES: &str = r#"
  - '@id("all") permit(principal in Group::"eng", action, resource) when { resource.name like "a_*" };'
  - '@id("limit") forbid(principal, action, resource == Tool::"a_pay") when { context has arg_amount && context.arg_amount > 100 };'
  - '@scopes("admin") permit(principal, action, resource == Tool::"a_drop");'
  - 'permit(principal == Client::"auditor", action, resource) when { resource.readOnlyHint };'
"#;

/// A configuration with these policies, and files of claims beside it.
struct TestEnv {
    folder: Folder,
    file: String,
    _backend: McpBackend,
}

impl TestEnv {
    fn new() -> Self {
        Self::with(&format!(
            "incomingAuth:\n authz:\n  type: cedar\n  policies: {POLICIES} type: local\n"
        ))
    }

    fn with(section: &str) -> Self {
        let (folder, backend) = (Folder::new(), McpBackend::stateless(&["pay", "drop", "look"]));
        let text = format!(
            "name: x\n{section}\naggregation: {{tools: [{{workload: a, overrides: {{look: \
             {{annotations: {{readOnlyHint: true}}}}}}}}]}}\n\
             backends: [{{name: a, url: \"{}\", transport: streamable-http}}]\n",
            backend.url()
        );
        let file = folder.write("vmcp.yaml", &text);
        Self { folder, file, _backend: backend }
    }

    fn explain(&self, claims: &Value, arguments: &[&str]) -> CommandOutput {
        let claims = self.folder.write("claims.json", &claims.to_string());
        self.run(&[&["--as", &claims], arguments].concat())
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        vmcp(&[&["authz", "explain", "-c", &self.file], arguments].concat())
    }

    fn json(&self, claims: &Value, arguments: &[&str]) -> Value {
        let ended = self.explain(claims, &[arguments, &["-o", "json"]].concat());
        assert_eq!((ended.code, &*ended.err), (0, ""));
        serde_json::from_str(&ended.out).unwrap()
    }
}

fn ids(explained: &Value) -> Vec<&str> {
    explained["deciding"].as_array().unwrap().iter().filter_map(|one| one["id"].as_str()).collect()
}

#[test]
fn names_deciding_policies_with_text() {
    let env = TestEnv::new();
    let eng = json!({"sub": "alice", "groups": ["eng"]});
    let ended = env.explain(&eng, &["--tool", "a_pay", "--argument", "amount=101"]);
    assert_eq!((ended.code, &*ended.err), (0, ""));
    for says in [
        "tool a_pay for alice: listed, but denied with these arguments (403)",
        "policy1 forbids",
        "@id(\"limit\")",
        "context.arg_amount > 100",
        "3 of 3 tools: a_drop, a_look, a_pay",
        "0 of 0 prompts",
    ] {
        assert!(ended.out.contains(says), "{says}: {}", ended.out);
    }
    let explained = env.json(&eng, &["--tool", "a_pay", "--arguments", r#"{"amount":1}"#]);
    assert_eq!(
        (explained["verdict"].as_str(), ids(&explained)),
        (Some("permitted"), vec!["policy0"])
    );
    assert_eq!(explained["deciding"][0]["annotations"], json!({"id": "all"}));
    assert_eq!(explained["deciding"][0]["effect"], "permit");
    assert_eq!(
        explained["visibleItems"]["tools"],
        json!({"visible": ["a_drop", "a_look", "a_pay"], "of": 3})
    );
    assert_eq!(explained["item"]["backend"], "a");
}

#[test]
fn explains_hidden_items_and_missing_scopes() {
    let env = TestEnv::new();
    let bob = json!({"sub": "bob", "scope": "openid"});
    let explained = env.json(&bob, &["--tool", "a_drop"]);
    assert_eq!(
        (explained["verdict"].as_str(), &explained["scopes"]),
        (Some("needsScopes"), &json!(["admin"]))
    );
    assert_eq!(explained["visibleItems"]["tools"], json!({"visible": ["a_drop"], "of": 3}));
    let text = env.explain(&bob, &["--tool", "a_pay"]).out;
    assert!(text.contains("hidden: not listed") && text.contains("no policy permits it"), "{text}");
    let admin = json!({"sub": "bob", "scope": "openid admin"});
    assert_eq!(env.json(&admin, &["--tool", "a_drop"])["verdict"], "permitted");
    // Without an item, the lists alone.
    let alone = env.json(&bob, &[]);
    assert!(alone.get("verdict").is_none() && alone["visibleItems"]["tools"]["of"] == 3, "{alone}");
    let nobody = env.run(&["--anonymous", "--tool", "a_look"]);
    assert!(nobody.out.starts_with("tool a_look for anonymous: hidden"), "{nobody:?}");
}

#[test]
fn shows_tool_annotations_and_policy_errors() {
    let env = TestEnv::new();
    let auditor = json!({"sub": "auditor"});
    let looked = env.explain(&auditor, &["--tool", "a_look"]);
    assert!(looked.out.contains("its server says: readOnlyHint true"), "{looked:?}");
    assert!(looked.out.contains("policy3 permits"), "{looked:?}");
    let paid = env.json(&auditor, &["--tool", "a_pay"]);
    assert_eq!(paid["verdict"], "hidden");
    let error = paid["errors"][0].as_str().unwrap();
    assert!(error.contains("policy3") && error.contains("readOnlyHint"), "{error}");
    // With `--offline`, no backend is asked for annotations.
    let offline = env.json(&auditor, &["--tool", "a_look", "--offline"]);
    assert_eq!((&offline["verdict"], offline.get("visibleItems")), (&json!("hidden"), None));
}

#[test]
fn suggests_existing_items_for_unknown_target() {
    let env = TestEnv::new();
    let who = json!({"sub": "alice"});
    for (arguments, says) in [
        (&["--tool", "look"][..], "did you mean a_look?"),
        (&["--tool", "x"], "there are a_drop, a_look, a_pay"),
        (&["--prompt", "x"], "there is no prompt \"x\", nor any other prompt"),
        (&["--resource", "file:///x"], "there is no resource \"file:///x\""),
    ] {
        let ended = env.explain(&who, arguments);
        assert_eq!((ended.code, &*ended.out), (2, ""), "{ended:?}");
        assert!(ended.err.contains(says), "{says}: {ended:?}");
    }
    let text = "name: x\nincomingAuth: {type: anonymous}\n\
                backends: [{name: gone, url: \"http://127.0.0.1:1/mcp\", transport: streamable-http}]\n";
    let gone = env.folder.write("gone.yaml", text);
    let ended = vmcp(&["authz", "explain", "-c", &gone, "--anonymous", "--tool", "x"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.err.contains("gone does not answer") && ended.err.contains("--offline"),
        "{ended:?}"
    );
}

#[test]
fn states_that_missing_policies_permit_everything() {
    let env = TestEnv::with("incomingAuth: {type: anonymous}");
    let ended = env.explain(&json!({"sub": "alice"}), &["--tool", "a_pay"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.out.contains("a_pay for alice: permitted"), "{ended:?}");
    assert!(ended.err.contains("there are no policies"), "{ended:?}");
    assert!(ended.err.contains("no caller of this server has claims"), "{ended:?}");
}

#[test]
fn rejects_invalid_claims_file_with_remedy() {
    let env = TestEnv::new();
    let large = format!("{{\"sub\":\"{}\"}}", "x".repeat(1 << 20));
    for (text, says) in [
        ("", "is not valid JSON"),
        ("[]", "must be a JSON object"),
        ("{}", "sub is missing"),
        (r#"{"sub": 7}"#, "sub must be a string"),
        (r#"{"sub": ""}"#, "sub must be a string that is not empty"),
        (r#"{"sub": "a", "iss": 1}"#, "iss must be a string"),
        ("eyJhbGciOiJub25lIn0.e30.", "is a token: the claims in it are wanted"),
        (&large, "at most are read"),
    ] {
        let file = env.folder.write("claims.json", text);
        let ended = env.run(&["--as", &file, "--tool", "a_pay"]);
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(ended.err.contains(says) && ended.err.contains(&file), "{says}: {}", ended.err);
    }
    for (arguments, says) in [
        (&["--tool", "a_pay"][..], "--as <FILE>"),
        (&["--as", "/nowhere", "--tool", "a_pay"], "--as /nowhere: cannot be read"),
        (&["--anonymous", "--argument", "a=1"], "--argument needs --tool or --prompt"),
        (&["--anonymous", "--offline"], "--offline needs --tool"),
        (&["--anonymous", "--tool", "a", "--prompt", "b"], "cannot be used with"),
        (&["--anonymous", "--resource", "a:b", "--argument", "a=1"], "cannot be used with"),
        (&["--anonymous", "--tool", "a_pay", "--arguments", "[1]"], "must be a JSON object"),
        (&["--anonymous", "--tool", "a_pay", "--argument", "a"], "must be NAME=VALUE"),
    ] {
        let ended = env.run(arguments);
        assert_eq!((ended.code, &*ended.out), (2, ""), "{ended:?}");
        assert!(ended.err.contains(says), "{says}: {}", ended.err);
    }
    let wrong = env.folder.write(
        "wrong.yaml",
        "name: x\nincomingAuth: {type: local, authz: {type: cedar, policies: [permit]}}\n",
    );
    let ended = vmcp(&["authz", "explain", "-c", &wrong, "--anonymous"]);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("incomingAuth.authz.policies[0]"), "{ended:?}");
}

#[test]
fn backend_and_generation_decide() {
    let policies = r#"
  - 'permit(principal, action, resource) when { resource.backend == "a" };'
  - 'forbid(principal, action, resource) unless { resource.generation == "2026-07-28" };'
"#;
    let (folder, a, b) = (
        Folder::new(),
        McpBackend::both(&["old", "same"], &["new", "same"]),
        McpBackend::stateless(&["x"]),
    );
    let text = format!(
        "name: x\nincomingAuth:\n authz:\n  type: cedar\n  policies: {policies} type: local\n\
         backends:\n- {{name: a, url: \"{}\", transport: streamable-http}}\n\
         - {{name: b, url: \"{}\", transport: streamable-http}}\n",
        a.url(),
        b.url()
    );
    let file = folder.write("vmcp.yaml", &text);
    let explain = |arguments: &[&str]| -> Value {
        let ended = vmcp(
            &[&["authz", "explain", "-c", &file, "--anonymous", "-o", "json"], arguments].concat(),
        );
        assert_eq!((ended.code, &*ended.err), (0, ""));
        serde_json::from_str(&ended.out).unwrap()
    };
    let same = explain(&["--tool", "a_same"]);
    assert_eq!(
        (&same["verdict"], &same["item"]["generation"]),
        (&json!("permitted"), &json!("2026-07-28"))
    );
    assert_eq!(same["visibleItems"]["tools"], json!({"visible": ["a_new", "a_same"], "of": 3}));
    let older = explain(&["--tool", "a_same", "--revision", "2025-06-18"]);
    assert_eq!(
        (&older["verdict"], &older["item"]["generation"]),
        (&json!("hidden"), &json!("2025-11-25"))
    );
    assert_eq!(older["visibleItems"]["tools"], json!({"visible": [], "of": 3}));
    assert_eq!(explain(&["--tool", "b_x"])["verdict"], "hidden");
    let offline = explain(&["--tool", "a_same", "--offline"]);
    assert!(offline["errors"][0].as_str().unwrap().contains("backend"), "{offline}");
    let unknown =
        vmcp(&["authz", "explain", "-c", &file, "--anonymous", "--revision", "2020-01-01"]);
    assert!(unknown.code == 2 && unknown.err.contains("2026-07-28, 2025-11-25"), "{unknown:?}");
}
