//! The embedded authorization server in front of the endpoint that its tokens are for.

use serde_json::json;
use vmcp_test_support::McpBackend;
use vmcp_test_support::mcp_backend::RecordedRequest;

use crate::http::{Answer, get, request};
use crate::incoming::ask;
use crate::login::{Client, Provider, sections, signing_key};
use crate::mcp::text;
use crate::program::{Folder, ServerProcess, vmcp};

const HOUR: u64 = 3600;

/// The token of a provider that there is none of.
const INJECT: &str = "outgoingAuth: {source: inline, default: {type: upstream_inject, \
                      upstreamInject: {providerName: corb}}}\n";

/// Two backends, each of which is shown the user's token of another provider.
fn file(backends: [&McpBackend; 2], sections: &str) -> String {
    let [a, b] = backends.map(McpBackend::url);
    format!(
        "name: x\n{sections}outgoingAuth:\n  source: inline\n  backends:\n    \
         a: {{type: upstream_inject, upstreamInject: {{providerName: corp}}}}\n    \
         b: {{type: upstream_inject, upstreamInject: {{providerName: git}}}}\n\
         operational: {{failureHandling: {{partialFailureMode: best_effort}}}}\n\
         backends:\n- {{name: a, url: \"{a}\", transport: streamable-http}}\n\
         - {{name: b, url: \"{b}\", transport: streamable-http}}\n"
    )
}

fn call(port: u16, client: &Client, tool: &str) -> crate::http::Answer {
    ask(port, Some(&client.access), "tools/call", &json!({"name": tool, "arguments": {}}))
}

fn bearers(backend: &McpBackend) -> Vec<String> {
    let requests = backend.requests();
    let calls = requests.iter().filter(|it| it.message()["method"] == "tools/call");
    let bearer = |it: &RecordedRequest| {
        it.header("authorization").strip_prefix("Bearer ").unwrap_or_default().to_owned()
    };
    calls.map(bearer).collect()
}

#[test]
fn client_logs_in_and_backends_receive_user_tokens() {
    let (corp, git) = (Provider::start("corp", HOUR), Provider::start("git", HOUR));
    let (folder, a, b) =
        (Folder::new(), McpBackend::stateless(&["x"]), McpBackend::stateless(&["y"]));
    let path = folder.write("vmcp.yaml", &file([&a, &b], &sections(&[&corp, &git], "")));
    let (server, port) = ServerProcess::serve(&path, &[]);
    let refused = ask(port, None, "tools/list", &json!({}));
    assert_eq!(refused.status, 401);
    assert!(refused.header("www-authenticate").unwrap().contains("resource_metadata="));

    let client = Client::logged_in(port);
    let listed = ask(port, Some(&client.access), "tools/list", &json!({})).message();
    let names: Vec<_> = listed["result"]["tools"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 2, "{listed}");
    assert_eq!(text(&call(port, &client, "a_x").message()), "done");
    assert_eq!(text(&call(port, &client, "b_y").message()), "done");
    assert_eq!(bearers(&a), ["corp-access-1"]);
    assert_eq!(bearers(&b), ["git-access-1"]);
    for provider in [&corp, &git] {
        let form = provider.forms().concat();
        assert!(form.contains("%2Fmcp%2Foauth%2Fcallback"), "{}: {form}", provider.name);
    }
    let (_, log) = server.stop();
    for secret in [&client.access, &client.refresh, "corp-access", "git-refresh"] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[test]
fn accepts_tokens_for_resource_and_audience() {
    let (corp, git) = (Provider::start("corp", HOUR), Provider::start("git", HOUR));
    let (folder, a, b) =
        (Folder::new(), McpBackend::stateless(&["x"]), McpBackend::stateless(&["y"]));
    let document = file([&a, &b], &sections(&[&corp, &git], "")).replace(
        "audience: \"http://localhost/mcp\"",
        "audience: \"http://localhost/tools\", resource: \"http://localhost/mcp\"",
    );
    assert!(document.contains("http://localhost/tools"), "{document}");
    let path = folder.write("vmcp.yaml", &document);
    let (_server, port) = ServerProcess::serve(&path, &[]);
    for resource in ["http://localhost/mcp", "http://localhost/tools"] {
        let client = Client::logged_in_for(port, resource);
        assert_eq!(text(&call(port, &client, "a_x").message()), "done");
    }
    let forged = format!("{}x", Client::logged_in(port).access);
    assert_eq!(ask(port, Some(&forged), "tools/list", &json!({})).status, 401);
}

#[test]
fn limits_registrations_per_address_behind_trusted_proxy() {
    let (corp, folder) = (Provider::start("corp", HOUR), Folder::new());
    let path = folder.write("vmcp.yaml", &format!("name: x\n{}", sections(&[&corp], "")));
    let (_server, port) = ServerProcess::serve(&path, &["--trusted-proxies", "1"]);
    let registers = |address: &str| {
        // Any client can write the entries before the proxy's own.
        let forwarded = format!("203.0.113.1, {address}");
        let headers = [("content-type", "application/json"), ("x-forwarded-for", &*forwarded)];
        let document = json!({"redirect_uris": ["http://127.0.0.1/cb"]}).to_string();
        request(port, "POST", "/oauth/register", &headers, &document).status
    };
    assert!((0..200).any(|_| registers("198.51.100.1") == 429));
    // More than what a slow machine would be given back meanwhile.
    for _ in 0..15 {
        assert_eq!(registers("198.51.100.2"), 201);
    }
}

#[test]
fn revoked_session_ends_only_own_streams_and_tokens() {
    let (corp, git) = (Provider::start("corp", HOUR), Provider::start("git", HOUR));
    let (folder, a, b) =
        (Folder::new(), McpBackend::stateless(&["x"]), McpBackend::stateless(&["y"]));
    let path = folder.write("vmcp.yaml", &file([&a, &b], &sections(&[&corp, &git], "")));
    let (_server, port) = ServerProcess::serve(&path, &[]);
    let (client, other) = (Client::logged_in(port), Client::logged_in(port));
    let bearer = format!("Bearer {}", client.access);
    let headers = [("accept", "text/event-stream"), ("authorization", &*bearer)];
    let stream = request(port, "GET", "/sse", &headers, "");
    assert_eq!(stream.status, 200);
    let shown = || get(port, "/status")["authorization_server"].clone();
    assert_eq!(
        (&shown()["issuer"], &shown()["revoked_sessions"]),
        (&json!("http://localhost"), &json!(0))
    );
    client.revokes();
    assert_eq!(shown()["revoked_sessions"], 1);
    // It ends: this would wait for longer than a test does.
    stream.read(&mut String::new());
    let refused = call(port, &client, "a_x");
    assert_eq!(refused.status, 401);
    assert!(refused.header("www-authenticate").unwrap().contains("error=\"invalid_token\""));
    assert_eq!(call(port, &other, "a_x").status, 200);
}

#[test]
fn refreshes_provider_tokens_and_requests_relogin_when_refused() {
    // One that lives shorter than the time before the end at which it is refreshed.
    let (corp, git) = (Provider::start("corp", HOUR), Provider::start("git", 2));
    let (folder, a, b) =
        (Folder::new(), McpBackend::stateless(&["x"]), McpBackend::stateless(&["y"]));
    let path = folder.write("vmcp.yaml", &file([&a, &b], &sections(&[&corp, &git], "")));
    let (_server, port) = ServerProcess::serve(&path, &[]);
    let mut client = Client::logged_in(port);
    assert_eq!(call(port, &client, "b_y").status, 200);
    assert_ne!(bearers(&b), ["git-access-1"]);
    assert!(git.forms().iter().any(|form| form.contains("grant_type=refresh_token")));
    git.forgets();
    let refused = call(port, &client, "b_y");
    assert_eq!(refused.status, 401);
    let challenge = refused.header("www-authenticate").unwrap();
    assert!(challenge.contains("resource_metadata="), "{challenge}");
    assert_eq!(call(port, &client, "a_x").status, 200);
    // The session itself goes on.
    assert_eq!(client.refreshes(), 200);
    assert_eq!(call(port, &client, "a_x").status, 200);
}

#[test]
fn refreshes_rejected_token_once_for_concurrent_calls() {
    let (corp, git) = (Provider::start("corp", HOUR), Provider::start("git", HOUR));
    let (folder, a, b) =
        (Folder::new(), McpBackend::stateless(&["x"]), McpBackend::stateful(&["y"]));
    let path = folder.write("vmcp.yaml", &file([&a, &b], &sections(&[&corp, &git], "")));
    let (_server, port) = ServerProcess::serve(&path, &[]);
    let client = Client::logged_in(port);
    assert_eq!(text(&call(port, &client, "b_y").message()), "done");
    let refreshes = |provider: &Provider| {
        provider.forms().iter().filter(|form| form.contains("grant_type=refresh_token")).count()
    };

    // The backend rejects the token before it expires. Callers see no error, and the provider gets one refresh request.
    b.reject_token("git-access-1");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(text(&call(port, &client, "b_y").message()), "done"));
        }
    });
    assert_eq!(refreshes(&git), 1);
    assert_eq!(text(&call(port, &client, "b_y").message()), "done");

    // One that takes no token at all is not asked for ever, nor is the provider.
    b.reject_token("git-access-2");
    let refused = call(port, &client, "b_y").message();
    assert!(refused.to_string().contains("401"), "{refused}");
    assert_eq!(refreshes(&git), 1);

    // If the grant is invalid, the user has to log in again. The other backend is unaffected.
    corp.forgets();
    assert_eq!(text(&call(port, &client, "a_x").message()), "done");
    a.reject_token("corp-access-1");
    let refused = call(port, &client, "a_x");
    assert_eq!(refused.status, 401);
    assert!(refused.header("www-authenticate").unwrap().contains("resource_metadata="));
}

#[test]
fn reload_keeps_sessions_and_rotates_valid_keys() {
    let (corp, git) = (Provider::start("corp", HOUR), Provider::start("git", HOUR));
    let (folder, a, b) =
        (Folder::new(), McpBackend::stateless(&["x"]), McpBackend::stateless(&["y"]));
    let one = folder.write("one.pem", &signing_key());
    let two = folder.write("two.pem", &signing_key());
    let hmac = folder.write("hmac", &"0123456789abcdef".repeat(2));
    let with = |keys: &str, more: &str| {
        let more = format!(
            "  signingKeySecretRefs: [{keys}]\n  hmacSecretRefs: [{{file: \"{hmac}\"}}]\n{more}"
        );
        file([&a, &b], &sections(&[&corp, &git], &more))
    };
    let (first, second) = (format!("{{file: \"{one}\"}}"), format!("{{file: \"{two}\"}}"));
    let path = folder.write("vmcp.yaml", &with(&first, ""));
    let (server, port) = ServerProcess::serve(&path, &[]);
    let mut client = Client::logged_in(port);
    let kids = || get(port, "/.well-known/jwks.json")["keys"].as_array().unwrap().len();
    assert_eq!(kids(), 1);
    server.signal("HUP");
    server.logs("configuration reloaded");
    assert_eq!(call(port, &client, "a_x").status, 200);

    folder.write("vmcp.yaml", &with(&format!("{second}, {first}"), ""));
    server.logs("configuration reloaded");
    assert_eq!(kids(), 2);
    assert_eq!(call(port, &client, "a_x").status, 200);
    let before = client.access.clone();
    assert_eq!(client.refreshes(), 200);
    let header = |token: &str| token.split('.').next().unwrap().to_owned();
    assert_ne!(header(&before), header(&client.access), "another key signs");
    assert_eq!(call(port, &client, "a_x").status, 200);

    // A file that is changed in its place is noticed, and refused as a whole if it is wrong.
    folder.write("two.pem", "no key");
    server.logs("authServer.signingKeySecretRefs[0].file");
    assert_eq!((kids(), call(port, &client, "a_x").status), (2, 200));
    folder.write("two.pem", &signing_key());
    server.logs("configuration reloaded");
    assert_eq!((kids(), call(port, &client, "a_x").status), (2, 401));
    assert_eq!(client.refreshes(), 200);
    assert_eq!(call(port, &client, "a_x").status, 200);

    let moved = with(&first, "").replace("localhost", "127.0.0.1");
    folder.write("vmcp.yaml", &moved);
    server.logs("authServer.issuer: changes apply at a restart only");
    client.revokes();
    assert_eq!(call(port, &client, "a_x").status, 401);
}

#[test]
fn allows_cors_on_client_endpoints_only() {
    let corp = Provider::start("corp", HOUR);
    let folder = Folder::new();
    let path = folder.write("vmcp.yaml", &format!("name: x\n{}", sections(&[&corp], "")));
    let (_server, port) = ServerProcess::serve(&path, &[]);
    let origin = [("origin", "https://app.example")];
    for at in [
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
        "/.well-known/jwks.json",
    ] {
        let answer = request(port, "GET", at, &origin, "");
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some("*")));
    }
    for at in ["/oauth/token", "/oauth/register", "/oauth/revoke"] {
        let asked = [origin[0], ("access-control-request-method", "POST")];
        let answer = request(port, "OPTIONS", at, &asked, "");
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (204, Some("*")));
    }
    for at in ["/oauth/authorize", "/mcp/oauth/callback", "/oauth/connections", "/elsewhere"] {
        let answer = request(port, "GET", at, &origin, "");
        assert_eq!(answer.header("access-control-allow-origin"), None, "{at}");
        assert!(answer.status >= 400, "{at}: {}", answer.status);
    }
    assert_eq!(get(port, "/livez")["status"], "ok");
}

#[test]
fn rejects_unusable_secret_files_without_showing_content() {
    let corp = Provider::start("corp", HOUR);
    let folder = Folder::new();
    let short = folder.write("short", "hunter2");
    let gone = folder.path("gone");
    let good = format!("name: x\n{}", sections(&[&corp], ""));
    let hmac = |path: &str| format!("  hmacSecretRefs: [{{file: \"{path}\"}}]\n");
    let key = |path: &str| format!("  signingKeySecretRefs: [{{file: \"{path}\"}}]\n");
    let with = |more: &str| format!("name: x\n{}", sections(&[&corp], more));
    let client =
        |more: &str| good.replace("clientId: gateway", &format!("clientId: gateway{more}"));
    let secret = format!(", clientSecretRef: {{file: \"{gone}\"}}");
    refused(
        &folder,
        [
            (with(&hmac(&short)), "authServer.hmacSecretRefs[0].file", "32"),
            (with(&hmac(&gone)), "authServer.hmacSecretRefs[0].file", "cannot be read"),
            (with(&hmac("/")), "authServer.hmacSecretRefs[0].file", "not a regular file"),
            (with(&key(&short)), "authServer.signingKeySecretRefs[0].file", "signing key"),
            (
                client(&secret),
                "upstreamProviders[0].oauth2Config.clientSecretRef.file",
                "cannot be read",
            ),
        ],
    );
    let ended = vmcp(&["validate", "--config", &folder.write("vmcp.yaml", &good)]);
    assert_eq!(ended.code, 0, "{ended:?}");
    for path in ["signingKeySecretRefs", "hmacSecretRefs", "storage.type"] {
        assert!(ended.err.contains(&format!("authServer.{path}: ")), "{}", ended.err);
    }
}

#[test]
fn default_redirect_uri_works_with_another_authorization_origin() {
    let corp = Provider::start("corp", HOUR);
    let folder = Folder::new();
    let base = "  authorizationEndpointBaseUrl: \"https://login.example/auth\"\n";
    let file = folder.write("vmcp.yaml", &format!("name: x\n{}", sections(&[&corp], base)));
    let ended = vmcp(&["validate", "--config", &file]);
    assert_eq!(ended.code, 0, "{ended:?}");
    let (_server, port) = ServerProcess::serve(&file, &[]);
    let answer = request(port, "GET", "/mcp/oauth/callback?code=c&state=s", &[], "");
    let back = "https://login.example/auth/oauth/return/mcp/oauth/callback?code=c&state=s";
    assert_eq!((answer.status, answer.header("location")), (303, Some(back)));
}

#[test]
fn rejects_contradictory_settings_with_path() {
    let corp = Provider::start("corp", HOUR);
    let folder = Folder::new();
    let good = format!("name: x\n{}", sections(&[&corp], ""));
    let with = |more: &str| format!("name: x\n{}", sections(&[&corp], more));
    let client =
        |more: &str| good.replace("clientId: gateway", &format!("clientId: gateway{more}"));
    let oidc = |more: &str| good.replace("insecure", &format!("{more}, insecure"));
    refused(
        &folder,
        [
            (
                client(", redirectUri: \"https://elsewhere.test/back\""),
                "upstreamProviders[0].oauth2Config.redirectUri",
                "where logins start",
            ),
            (
                client(", redirectUri: \"http://localhost/mcp\""),
                "oauth2Config.redirectUri",
                "taken",
            ),
            (
                client(", redirectUri: \"http://localhost/oauth/token\""),
                "oauth2Config.redirectUri",
                "another endpoint",
            ),
            (
                with("  baselineClientScopes: [root]\n"),
                "authServer.baselineClientScopes: found \"root\"",
                "openid profile",
            ),
            (
                with("  tokenLifespans: {accessTokenLifespan: 25h, refreshTokenLifespan: 1m}\n"),
                "authServer.tokenLifespans.accessTokenLifespan",
                "24 hours",
            ),
            (
                with("  tokenLifespans: {accessTokenLifespan: 25h, refreshTokenLifespan: 1m}\n"),
                "authServer.tokenLifespans.refreshTokenLifespan",
                "30 days",
            ),
            (oidc("jwksUrl: \"https://a.test/k\""), "incomingAuth.oidc.jwksUrl", "jwks.json"),
            (
                good.replace(
                    "oidc: {issuer: \"http://localhost\"",
                    "oidc: {issuer: \"http://localhos\"",
                ),
                "incomingAuth.oidc.issuer",
                "authServer.issuer",
            ),
            (good.clone() + INJECT, "outgoingAuth.default.upstreamInject.providerName", "corp"),
            (
                format!("name: x\nincomingAuth: {{type: anonymous}}\n{INJECT}"),
                "providerName",
                "none",
            ),
        ],
    );
}

/// Each is refused by `validate`, with its place and what it says.
fn refused<const N: usize>(folder: &Folder, cases: [(String, &str, &str); N]) {
    for (text, path, says) in cases {
        let ended = vmcp(&["validate", "--config", &folder.write("vmcp.yaml", &text)]);
        assert_eq!(ended.code, 1, "{path}: {ended:?}");
        assert!(ended.err.contains(path) && ended.err.contains(says), "{path}: {}", ended.err);
        assert!(!ended.err.contains("hunter2"), "{}", ended.err);
    }
}

#[test]
fn start_fails_for_unreachable_redis() {
    let corp = Provider::start("corp", HOUR);
    let folder = Folder::new();
    let password = folder.write("password", "hunter2\n");
    let storage = format!(
        "  storage: {{type: redis, redis: {{addr: \"127.0.0.1:1\", dialTimeout: 1s, \
         aclUserConfig: {{passwordSecretRef: {{file: \"{password}\"}}}}}}}}\n"
    );
    let text = format!("name: x\n{}", sections(&[&corp], &storage));
    let file = folder.write("vmcp.yaml", &text);
    assert_eq!(vmcp(&["validate", "--config", &file]).code, 0, "nobody is asked");
    let ended = vmcp(&["serve", "--port", "0", "--config", &file]);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(ended.err.contains("authServer.storage.redis: "), "{ended:?}");
    assert!(!ended.err.contains("hunter2"), "{ended:?}");
}

#[test]
fn exchanges_token_of_first_or_named_provider() {
    let (corp, git) = (Provider::start("corp", HOUR), Provider::start("git", HOUR));
    let exchange = Provider::start("exchange", HOUR);
    for (named, subject) in [("", "corp-access-1"), (", subjectProviderName: git", "git-access-2")]
    {
        let (folder, a) = (Folder::new(), McpBackend::stateless(&["x"]));
        let (own, url, at) = (sections(&[&corp, &git], ""), a.url(), exchange.token_url());
        let text = format!(
            "name: x\n{own}outgoingAuth: {{source: inline, default: {{type: token_exchange, \
             tokenExchange: {{tokenUrl: \"{at}\"{named}}}}}}}\n\
             backends: [{{name: a, url: \"{url}\", transport: streamable-http}}]\n"
        );
        let (_server, port) = ServerProcess::serve(&folder.write("vmcp.yaml", &text), &[]);
        let client = Client::logged_in(port);
        assert_eq!(call(port, &client, "a_x").status, 200);
        let form = exchange.forms().pop().unwrap();
        assert!(form.contains(&format!("subject_token={subject}")), "{form}");
        assert!(bearers(&a)[0].starts_with("exchange-access-"), "{:?}", bearers(&a));
    }
}

#[test]
fn aws_receives_token_of_first_or_named_provider() {
    let (corp, git) = (Provider::start("corp", HOUR), Provider::start("git", HOUR));
    let sts = Provider::start("sts", HOUR);
    for (named, token) in [("", "corp-access-"), (", subjectProviderName: git", "git-access-")] {
        let (folder, a) = (Folder::new(), McpBackend::stateless(&["x"]));
        let (own, url) = (sections(&[&corp, &git], ""), a.url());
        let text = format!(
            "name: x\n{own}outgoingAuth: {{source: inline, default: {{type: aws_sts, awsSts: \
             {{region: eu-central-1, fallbackRoleArn: \"arn:aws:iam::123456789012:role/reader\"\
             {named}}}}}}}\n\
             backends: [{{name: a, url: \"{url}\", transport: streamable-http}}]\n"
        );
        let file = folder.write("vmcp.yaml", &text);
        let endpoint = sts.token_url();
        let variables = [("AWS_ENDPOINT_URL_STS", endpoint.as_str())];
        let (_server, port) = ServerProcess::serve_with(&file, &[], &variables);
        let before = sts.forms().len();
        // The fake endpoint returns no AWS credentials; the test checks only the token in the request.
        call(port, &Client::logged_in(port), "a_x");
        let forms = sts.forms().split_off(before);
        assert!(!forms.is_empty());
        for form in forms {
            assert!(form.contains("Action=AssumeRoleWithWebIdentity"), "{form}");
            assert!(form.contains(&format!("WebIdentityToken={token}")), "{form}");
        }
    }
}

#[test]
fn policies_read_claims_of_primary_provider() {
    let (corp, speaking) = (Provider::start("corp", HOUR), Provider::start("speaking", HOUR));
    for (primary, listed) in [(", primaryUpstreamProvider: speaking", 1), ("", 0)] {
        let (folder, a) = (Folder::new(), McpBackend::stateless(&["x"]));
        let (own, url) = (sections(&[&corp, &speaking], ""), a.url());
        let own = own.replace(
            "authServer:",
            &format!(
                "  authz: {{type: cedar, policies: \
                 ['permit(principal in Group::\"eng\", action, resource);']{primary}}}\nauthServer:"
            ),
        );
        let text = format!(
            "name: x\n{own}backends: [{{name: a, url: \"{url}\", transport: streamable-http}}]\n"
        );
        let (_server, port) = ServerProcess::serve(&folder.write("vmcp.yaml", &text), &[]);
        let client = Client::logged_in(port);
        let tools = ask(port, Some(&client.access), "tools/list", &json!({})).message();
        assert_eq!(tools["result"]["tools"].as_array().map(Vec::len), Some(listed), "{tools}");
    }
}

/// The standing stream of a new session, that of an old client, and one of a client without sessions.
fn streams(port: u16, token: &str) -> [Answer; 3] {
    let bearer = format!("Bearer {token}");
    let media = ("accept", "application/json, text/event-stream");
    let headers = [("content-type", "application/json"), media, ("authorization", &*bearer)];
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}});
    let welcome = request(port, "POST", "/mcp", &headers, &hello.to_string());
    let session = welcome.header("mcp-session-id").unwrap().to_owned();
    let sse = [("accept", "text/event-stream"), ("authorization", &*bearer)];
    let standing = [&sse[..], &[("mcp-session-id", &*session)]].concat();
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let streams = [
        request(port, "GET", "/mcp", &standing, ""),
        request(port, "GET", "/sse", &sse, ""),
        ask(port, Some(token), "subscriptions/listen", &filter),
    ];
    for stream in &streams {
        assert_eq!(stream.status, 200);
        assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    }
    streams
}

#[test]
fn tightened_policies_end_streams_of_denied_callers() {
    let (corp, speaking) = (Provider::start("corp", HOUR), Provider::start("speaking", HOUR));
    let (folder, a) = (Folder::new(), McpBackend::stateless(&["x"]));
    let (own, url) = (sections(&[&corp, &speaking], ""), a.url());
    let text = |policy: &str, more: &str| {
        let authz = format!(
            "  authz: {{type: cedar, policies: ['{policy}'], primaryUpstreamProvider: speaking}}\nauthServer:"
        );
        let own = own.replace("authServer:", &authz);
        format!(
            "name: x\n{own}{more}backends: [{{name: a, url: \"{url}\", transport: streamable-http}}]\n"
        )
    };
    let wide = r#"permit(principal in Group::"eng", action, resource);"#;
    let tight = r#"permit(principal in Group::"ops", action, resource);"#;
    let path = folder.write("vmcp.yaml", &text(wide, ""));
    let (server, port) = ServerProcess::serve(&path, &[]);
    let client = Client::logged_in(port);
    let listed = || {
        let listed = ask(port, Some(&client.access), "tools/list", &json!({})).message();
        listed["result"]["tools"].as_array().map(Vec::len)
    };
    assert_eq!(listed(), Some(1));
    let (ended, wait) = std::sync::mpsc::channel();
    for stream in streams(port, &client.access) {
        let ended = ended.clone();
        std::thread::spawn(move || {
            stream.read(&mut String::new());
            // The receiver is gone if the test has failed.
            _ = ended.send(());
        });
    }
    // A reload that leaves the policies alone leaves the streams alone.
    folder.write("vmcp.yaml", &text(wide, "operational: {logLevel: debug}\n"));
    server.logs("configuration reloaded");
    let quiet = std::time::Duration::from_secs(2);
    assert!(wait.recv_timeout(quiet).is_err(), "a stream ended");
    folder.write("vmcp.yaml", &text(tight, ""));
    server.logs("configuration reloaded");
    for number in 0..3 {
        let over = wait.recv_timeout(std::time::Duration::from_secs(10));
        assert!(over.is_ok(), "{number} of 3 streams ended");
    }
    assert_eq!(listed(), Some(0));
    streams(port, &client.access);
}

/// Polls `/status` until the authorization server's section meets the condition, and returns it.
fn shown(port: u16, is_so: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let patience = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let shown = get(port, "/status")["authorization_server"].clone();
        if is_so(&shown) {
            return shown;
        }
        assert!(tokio::time::Instant::now() < patience, "{shown}");
        std::thread::yield_now();
    }
}

#[test]
fn status_shows_store_and_provider_health() {
    let (corp, git) = (Provider::start("corp", HOUR), Provider::start("git", 2));
    let (folder, a, b) =
        (Folder::new(), McpBackend::stateless(&["x"]), McpBackend::stateless(&["y"]));
    let own = sections(&[&corp, &git], "");
    let away = "  - {name: away, type: oidc, oidcConfig: {issuerUrl: \"https://127.0.0.1:9\", clientId: x}}\n";
    let path = folder.write("vmcp.yaml", &file([&a, &b], &own));
    let (_server, port) = ServerProcess::serve(&path, &[]);
    let before = shown(port, |shown| shown["storage"]["status"] == "ready");
    assert_eq!(before["storage"]["type"], "memory");
    let state = |shown: &serde_json::Value, at: usize| {
        let upstream = &shown["upstreams"][at];
        format!("{} {} {}", upstream["name"], upstream["type"], upstream["status"]).replace('"', "")
    };
    // Without a login, the status of providers that publish no metadata is unknown.
    assert_eq!(state(&before, 0), "corp oauth2 unknown");
    assert!(before["upstreams"][0]["url"].as_str().unwrap().ends_with("/auth"), "{before}");
    let _client = Client::logged_in(port);
    let after = shown(port, |_| true);
    assert_eq!(
        (state(&after, 0), state(&after, 1)),
        ("corp oauth2 ready".into(), "git oauth2 ready".into())
    );

    let path = folder.write("away.yaml", &file([&a, &b], &format!("{own}{away}")));
    let (_server, port) = ServerProcess::serve(&path, &[]);
    let found = shown(port, |shown| shown["upstreams"][2]["status"] != "unknown");
    assert_eq!(state(&found, 2), "away oidc unavailable");
    assert!(
        found["upstreams"][2]["message"].as_str().unwrap().contains("is unreachable"),
        "{found}"
    );
}

#[test]
fn inspect_shows_the_store_and_the_providers() {
    let corp = Provider::start("corp", HOUR);
    let (folder, a, b) =
        (Folder::new(), McpBackend::stateless(&["x"]), McpBackend::stateless(&["y"]));
    let away = "  - {name: git, type: oidc, oidcConfig: {issuerUrl: \"https://127.0.0.1:9\", clientId: x}}\n";
    let own = format!("{}{away}", sections(&[&corp], ""));
    let path = folder.write("vmcp.yaml", &file([&a, &b], &own));
    let ended = vmcp(&["inspect", "-c", &path, "-o", "json"]);
    let json: serde_json::Value =
        serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{ended:?}"));
    let issuer = &json["authorizationServer"];
    assert_eq!(issuer["issuer"], "http://localhost");
    assert_eq!(issuer["storage"], json!({"type": "memory", "status": "ready", "message": null}));
    assert_eq!(
        (&issuer["upstreams"][0]["status"], &issuer["upstreams"][1]["status"]),
        (&json!("unknown"), &json!("unavailable"))
    );
    let ended = vmcp(&["inspect", "-c", &path]);
    let line = |start: &str| {
        let line = ended.out.lines().find(|line| line.starts_with(start));
        let line = line.unwrap_or_else(|| panic!("{start}: {ended:?}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("authorization server"), "authorization server http://localhost");
    assert_eq!(line("storage"), "storage memory ready");
    assert!(
        line("upstream  git").starts_with("upstream git oidc https://127.0.0.1:9 unavailable"),
        "{ended:?}"
    );
}

#[test]
fn telemetry_covers_endpoints_by_route() {
    let corp = Provider::start("corp", HOUR);
    let (folder, a, b) =
        (Folder::new(), McpBackend::stateless(&["x"]), McpBackend::stateless(&["y"]));
    let collector = crate::collector::Collector::start();
    let own = sections(&[&corp], "");
    let url = collector.url();
    let text = format!(
        "{}telemetry: {{enablePrometheusMetricsPath: true, endpoint: \"{url}\", insecure: true, \
         tracingEnabled: true, samplingRate: \"1.0\"}}\n",
        file([&a, &b], &own).replace("providerName: git", "providerName: corp")
    );
    let path = folder.write("vmcp.yaml", &text);
    let (server, port) = ServerProcess::serve(&path, &[]);
    let client = Client::logged_in(port);
    assert_eq!(request(port, "GET", "/oauth/canary?code=canary", &[], "").status, 404);
    shown(port, |shown| shown["storage"]["status"] == "ready");
    let mut found = String::new();
    request(port, "GET", "/metrics", &[], "").read(&mut found);
    let has = |parts: &[&str]| {
        let found = found.lines().any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found, "{parts:?}");
    };
    has(&[
        "http_server_request_duration_seconds_count",
        "http_route=\"/oauth/token\"",
        "http_response_status_code=\"200\"",
        "http_request_method=\"POST\"",
    ]);
    has(&["http_route=\"/mcp/oauth/callback\"", "http_response_status_code=\"303\""]);
    has(&["http_server_request_duration_seconds_count", "http_response_status_code=\"404\""]);
    has(&["vmcp_auth_server_stored", "vmcp_auth_server_kind=\"clients\""]);
    has(&["vmcp_auth_server_held", "vmcp_auth_server_kind=\"rate_limited_addresses\""]);
    has(&["vmcp_auth_server_store_up", "vmcp_auth_server_storage=\"memory\"", " 1"]);
    server.stop();
    let spans = collector.spans();
    let names: std::collections::BTreeSet<_> = spans.iter().map(|span| &*span.name).collect();
    for name in ["GET /oauth/authorize", "POST /oauth/token", "GET /mcp/oauth/callback", "GET"] {
        assert!(names.contains(name), "{name} in {names:?}");
    }
    let all = format!("{spans:?} {found}");
    for secret in ["canary", "s7ate-s7ate", "code=c", &client.access, &client.refresh] {
        assert!(!all.contains(secret), "{secret}");
    }
}
