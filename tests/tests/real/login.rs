//! Real clients that know only the URL of the gateway, and log in at an independent identity provider.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::Value;
use tokio::time::Instant;
use vmcp_tests::counterparts::{
    Client, Era, Fixture, Gateway, LoggedIn, LoginProvider, Person, TestError, get, skipped,
};
use vmcp_tests::fixture::Generation;

/// Clients that support login, in their eras.
const CLIENTS: [(Client, Era); 7] = [
    (Client::PythonMcp, Era::Legacy),
    (Client::PythonMcp, Era::Modern),
    (Client::PythonMcp, Era::Auto),
    (Client::TypeScript1, Era::Legacy),
    (Client::TypeScript2, Era::Legacy),
    (Client::TypeScript2, Era::Modern),
    (Client::TypeScript2, Era::Auto),
];

/// Permits everything to all callers.
const ALL: &str = "'permit(principal, action, resource);'";

/// Permits one of the tools only to callers with the scope `admin`, all others to all callers.
const STEP_UP: &str = "'permit(principal, action, resource) unless {resource == Tool::\"fixture_whoami\"};', \
     '@scopes(\"admin\") permit(principal, action, resource == Tool::\"fixture_whoami\");'";

/// Starts a gateway that accepts the provider's tokens and advertises the scopes `openid` and `tools`.
async fn gateway(provider: &LoginProvider, fixture: &Fixture, policies: &str) -> Gateway {
    let (issuer, backend) = (provider.issuer(), fixture.url());
    let yaml = |url: &str| {
        format!(
            "name: tests\n\
             incomingAuth:\n  \
               type: oidc\n  \
               oidc: {{issuer: \"{issuer}\", clientId: gateway, audience: \"{url}\", insecureAllowHttp: true, \
                 protectedResourceAllowPrivateIp: true, scopes: [openid, tools]}}\n  \
               authz: {{type: cedar, policies: [{policies}]}}\n\
             backends:\n\
             - {{name: fixture, url: \"{backend}\", transport: streamable-http}}\n\
             aggregation:\n  \
               conflictResolution: priority\n  \
               conflictResolutionConfig: {{priorityOrder: [fixture]}}\n"
        )
    };
    Gateway::start_knowing(yaml).await.unwrap()
}

fn who(client: Client, era: Era) -> String {
    format!("{client:?} in era {}", era.name())
}

/// Runs all clients concurrently, and reports all failures.
async fn each<F: Future<Output = Result<(), TestError>>>(check: impl Fn(Client, Era) -> F) {
    let checks = CLIENTS.map(|(client, era)| {
        let check = check(client, era);
        async move { check.await.map_err(|fault| format!("{}: {fault}", who(client, era))) }
    });
    let faults: Vec<_> = join_all(checks).await.into_iter().filter_map(Result::err).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

fn expect(holds: bool, what: impl FnOnce() -> String) -> Result<(), TestError> {
    if holds { Ok(()) } else { Err(what().into()) }
}

/// Returns the request that reached the backend.
async fn whoami(client: &mut LoggedIn) -> Result<Value, TestError> {
    Ok(serde_json::from_str(&client.call("fixture_whoami").await?)?)
}

fn has_credential(seen: &Value) -> bool {
    seen["headers"].get("authorization").is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn real_clients_log_in_with_url_alone() {
    if skipped() {
        return;
    }
    let provider = LoginProvider::start().await.unwrap();
    let fixture = Fixture::start(Generation::Both).await.unwrap();
    let gateway = gateway(&provider, &fixture, ALL).await;
    let refused = get(gateway.url()).await.unwrap();
    assert_eq!(refused.status, 401, "{refused:?}");
    each(|client, era| {
        let url = gateway.url().to_owned();
        async move {
            let person = Person::named("ann");
            let mut client = LoggedIn::start(client, &url, era, false, person).await?;
            let tools = client.tools().await?;
            expect(tools.iter().any(|tool| tool == "fixture_whoami"), || format!("{tools:?}"))?;
            let seen = whoami(&mut client).await?;
            expect(!has_credential(&seen), || seen.to_string())?;
            let known = client.known();
            // The client requested the challenge's scopes once.
            expect(known.authorizations == 1 && client.asked() == ["openid tools"], || {
                format!("{known:?}, {:?}", client.asked())
            })
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn session_survives_token_refresh() {
    if skipped() {
        return;
    }
    // The gateway allows 30 seconds of clock skew.
    let late = Duration::from_secs(27);
    let provider = LoginProvider::with_tokens(Duration::from_secs(1), late).await.unwrap();
    let fixture = Fixture::start(Generation::Stateful).await.unwrap();
    let gateway = gateway(&provider, &fixture, ALL).await;
    each(|client, era| {
        let url = gateway.url().to_owned();
        async move {
            let mut client = LoggedIn::start(client, &url, era, true, Person::named("ann")).await?;
            let first = whoami(&mut client).await?;
            let before = client.known().tokens;
            let deadline = Instant::now() + Duration::from_secs(30);
            while client.known().tokens < before + 2 {
                let seen = whoami(&mut client).await?;
                expect(seen["session"] == first["session"], || format!("{first} then {seen}"))?;
                expect(Instant::now() < deadline, || format!("not renewed: {:?}", client.known()))?;
            }
            let known = client.known();
            expect(known.authorizations == 1, || format!("logged in again: {known:?}"))
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn client_requests_additional_scopes_and_retries() {
    if skipped() {
        return;
    }
    let provider = LoginProvider::start().await.unwrap();
    let fixture = Fixture::start(Generation::Both).await.unwrap();
    let gateway = gateway(&provider, &fixture, STEP_UP).await;
    each(|client, era| {
        let url = gateway.url().to_owned();
        async move {
            let mut client =
                LoggedIn::start(client, &url, era, false, Person::named("ann")).await?;
            let text = client.call("test_simple_text").await?;
            expect(text.starts_with("This is a simple text"), || text)?;
            expect(client.asked() == ["openid tools"], || format!("{:?}", client.asked()))?;
            whoami(&mut client).await?;
            let asked = client.asked();
            let scopes: Vec<_> = asked[asked.len() - 1].split(' ').collect();
            // Together with its previous scopes, so that it keeps them.
            expect(
                asked.len() == 2 && ["admin", "tools"].iter().all(|it| scopes.contains(it)),
                || format!("asked for {asked:?}"),
            )?;
            // The client has all required scopes now.
            whoami(&mut client).await?;
            expect(client.known().authorizations == 2, || format!("{:?}", client.known()))
        }
    })
    .await;
}
