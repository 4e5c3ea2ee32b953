//! Real clients that know only the URL of the gateway, which is its own authorization server and delegates logins to
//! independent identity providers.

use futures_util::future::join_all;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant, sleep};
use vmcp_tests::counterparts::{
    Certificates, Client, Era, Gateway, Inspector, LoggedIn, Person, Redis, Status, post_form,
    run_authorization_suite, skipped,
};
use vmcp_tests::login_steps::{Login, Step, StepOutcome};

use crate::auth_server::register;
use crate::issuing::TestEnv;

/// Timeout for the refresh of tokens with the minimum lifetime of one minute.
const RENEWED: Duration = Duration::from_mins(2);

/// Logs in, lists, and calls a tool that returns the headers that the backend received.
async fn comes_through(client: Client, era: Era, gateway: &Gateway, ground: &TestEnv) {
    let who = format!("{client:?} in era {}", era.name());
    let client = LoggedIn::start(client, gateway.url(), era, true, Person::named("ann")).await;
    let mut client = client.unwrap_or_else(|fault| panic!("{who}: {fault}\n{}", gateway.log()));
    let tools = client.tools().await.unwrap();
    assert!(tools.contains(&"fixture_whoami".to_owned()), "{who}: {tools:?}");
    let seen: Value = serde_json::from_str(&client.call("fixture_whoami").await.unwrap()).unwrap();
    let shown = seen["headers"]["authorization"].as_str().unwrap();
    let form = format!("access_token={}", shown.strip_prefix("Bearer ").unwrap());
    let own = post_form(&format!("{}/me", ground.second.issuer()), &form).await.unwrap();
    assert_eq!(own.status, 200, "{who}: the second provider knows it");
    let told: Value = serde_json::from_slice(&own.body).unwrap();
    assert_eq!(told["sub"], "ann", "{who}");
    let other = post_form(&format!("{}/me", ground.first.issuer()), &form).await.unwrap();
    assert_eq!(other.status, 401, "{who}");
    assert_eq!(client.known().authorizations, 1, "{who}: {:?}", client.known());
}

#[tokio::test(flavor = "multi_thread")]
async fn login_through_two_providers_forwards_second_token() {
    if skipped() {
        return;
    }
    let ground = TestEnv::plain().await;
    let gateway = ground.gateway("").await;
    for (client, era) in [
        (Client::PythonMcp, Era::Legacy),
        (Client::PythonMcp, Era::Modern),
        (Client::TypeScript1, Era::Legacy),
        (Client::TypeScript2, Era::Modern),
    ] {
        comes_through(client, era, &gateway, &ground).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_in_through_discovered_and_configured_providers() {
    if skipped() {
        return;
    }
    let ground = TestEnv::secured().await;
    let gateway = ground.gateway("").await;
    comes_through(Client::PythonMcp, Era::Modern, &gateway, &ground).await;
    comes_through(Client::TypeScript1, Era::Legacy, &gateway, &ground).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_refresh_tokens_at_gateway() {
    if skipped() {
        return;
    }
    let ground = TestEnv::secured().await;
    let gateway = ground.gateway("  tokenLifespans: {accessTokenLifespan: 1m}\n").await;
    let renewing = [
        (Client::PythonMcp, Era::Legacy),
        (Client::PythonMcp, Era::Modern),
        // The client requests no `offline_access`: the registered grant type suffices.
        (Client::TypeScript1, Era::Legacy),
        (Client::TypeScript2, Era::Modern),
    ]
    .map(async |(client, era)| {
        let who = format!("{client:?} in era {}", era.name());
        let person = Person::named("ann");
        let client = LoggedIn::start(client, gateway.url(), era, true, person).await;
        let mut client = client.unwrap_or_else(|fault| panic!("{who}: {fault}"));
        let before = client.known().tokens;
        let deadline = Instant::now() + RENEWED;
        while client.known().tokens == before {
            let called = client.call("fixture_whoami").await;
            called.unwrap_or_else(|fault| panic!("{who}: {fault}\n{}", gateway.log()));
            assert!(Instant::now() < deadline, "{who}: not renewed: {:?}", client.known());
            sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(client.known().authorizations, 1, "{who}: {:?}", client.known());
    });
    join_all(renewing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shipped_authorization_server_passes_conformance_suite() {
    if skipped() {
        return;
    }
    let ground = TestEnv::secured().await;
    let gateway = ground.gateway("").await;
    let issuer = gateway.url().trim_end_matches("/mcp");
    let client = register(issuer, "Suite").await;
    let checks = run_authorization_suite(issuer, &client, Person::named("ann")).await.unwrap();
    let unmet: Vec<_> = checks.iter().filter(|check| check.status != Status::Success).collect();
    assert!(unmet.is_empty(), "{unmet:?}");
    assert_eq!(checks.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn inspector_stores_tokens_and_logs_in_again() {
    if skipped() {
        return;
    }
    let ground = TestEnv::plain().await;
    let gateway = ground.gateway("").await;
    for era in [Era::Legacy, Era::Modern] {
        let person = Person::named("ann");
        let mut inspector = Inspector::new(gateway.url(), era, person).await.unwrap();
        let listed = inspector.ask(&["tools/list"]).await.unwrap();
        let tools = listed["tools"].as_array().unwrap();
        assert!(tools.iter().any(|tool| tool["name"] == "fixture_whoami"), "{listed}");
        // The stored tokens suffice from now on.
        let call = ["tools/call", "--tool-name", "fixture_whoami"];
        let called = inspector.ask(&[&call[..], &["--stored-auth-only"]].concat()).await.unwrap();
        let text = called["content"][0]["text"].as_str().unwrap();
        let seen: Value = serde_json::from_str(text).unwrap();
        let shown = seen["headers"]["authorization"].as_str().unwrap().to_owned();
        assert_eq!(inspector.logins(), 1);
        let called = inspector.ask(&[&call[..], &["--relogin"]].concat()).await.unwrap();
        assert!(!called.to_string().contains(&shown), "{called}");
        assert_eq!(inspector.logins(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_login_at_provider_with_untrusted_certificate() {
    if skipped() {
        return;
    }
    let ground = TestEnv::secured().await;
    let gateway = ground.trusting(&Certificates::new(&[]).unwrap(), "").await;
    let mut login = Login::new(gateway.url().trim_end_matches("/mcp"), "ann");
    login.goes(Step::Authorize).await.unwrap();
    let taken = login.takes(Step::Consent).await.unwrap();
    let StepOutcome::Refused(told) = taken else { panic!("{taken:?}") };
    assert!(told.contains("error="), "{told}");
    let log = gateway.log();
    let named = format!("the TLS handshake with {} failed", ground.first.issuer());
    assert!(log.contains(&named) && log.contains("certificate"), "{log}");
    let ready = gateway.page("/readyz").await.unwrap();
    assert_eq!(ready.status, StatusCode::OK, "others go on");
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_in_with_minimal_redis_permissions() {
    if skipped() {
        return;
    }
    let redis = Redis::start(&["--requirepass", "canary"]).await.unwrap();
    let asked = ["-a", "canary", "--no-auth-warning"];
    let rules = "ACL SETUSER issuer on >canary ~vmcp:auth:v1:* &vmcp:auth:v1:* -@all +@hash +@sortedset \
                 +@scripting +@pubsub +@connection +del +pexpire +pttl";
    let user: Vec<_> = asked.into_iter().chain(rules.split_whitespace()).collect();
    redis.cli(&user).await.unwrap();
    let ground = TestEnv::plain().await;
    let storage = ground.redis(&format!("addr: \"127.0.0.1:{}\"", redis.port));
    let user = format!("aclUserConfig: {{usernameSecretRef: {}, ", ground.secret("user"));
    let gateway = ground.gateway(&storage.replace("aclUserConfig: {", &user)).await;
    comes_through(Client::PythonMcp, Era::Modern, &gateway, &ground).await;
    let keys = redis.cli(&[&asked[..], &["KEYS", "*"]].concat()).await.unwrap();
    assert!(keys.contains("client:") && keys.contains("session:"), "{keys}");
    for key in keys.lines() {
        assert!(key.is_empty() || key.starts_with("vmcp:auth:v1:"), "{key}");
    }
    let users = redis.cli(&[&asked[..], &["CLIENT", "LIST"]].concat()).await.unwrap();
    assert!(users.contains("user=issuer"), "{users}");
    let status = gateway.page("/status").await.unwrap();
    let status: Value = serde_json::from_slice(&status.body).unwrap();
    let shown = &status["authorization_server"];
    let ready = json!({"type": "redis", "status": "ready", "message": null});
    assert_eq!(shown["storage"], ready, "its numbers can be asked for too: {shown}");
    for upstream in shown["upstreams"].as_array().unwrap() {
        assert_eq!(upstream["status"], "ready", "{upstream}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logins_continue_after_redis_password_rotation() {
    if skipped() {
        return;
    }
    let redis = Redis::start(&["--requirepass", "canary"]).await.unwrap();
    let ground = TestEnv::plain().await;
    let storage = ground.redis(&format!("addr: \"127.0.0.1:{}\"", redis.port));
    let gateway = ground.gateway(&storage).await;
    let mut login = Login::new(gateway.url().trim_end_matches("/mcp"), "ann");
    login.goes(Step::Token).await.unwrap();
    let asked = |password, words: &str| -> Vec<String> {
        let known = ["-a", password, "--no-auth-warning"];
        known.into_iter().chain(words.split(' ')).map(str::to_owned).collect()
    };
    redis.cli(&asked("canary", "CONFIG SET requirepass other")).await.unwrap();
    ground.rotates("password", "other\n");
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let status = gateway.page("/status").await.unwrap();
        let status: Value = serde_json::from_slice(&status.body).unwrap();
        if status["configuration"]["reloads"] == 1 {
            assert_eq!(status["configuration"]["last_error"], Value::Null, "{status}");
            break;
        }
        assert!(Instant::now() < deadline, "{status}\n{}", gateway.log());
        sleep(Duration::from_millis(200)).await;
    }
    // Closes the connections that were authenticated with the old password.
    for kind in ["normal", "pubsub"] {
        redis.cli(&asked("other", &format!("CLIENT KILL TYPE {kind}"))).await.unwrap();
    }
    let mut taken = login.takes(Step::Refresh).await.unwrap();
    while let StepOutcome::Unanswered(why) = taken {
        assert!(Instant::now() < deadline, "{why}");
        taken = login.takes(Step::Refresh).await.unwrap();
    }
    assert!(matches!(taken, StepOutcome::Done), "{taken:?}\n{}", gateway.log());
    let log = gateway.log();
    assert!(!log.contains("canary"), "{log}");
}
