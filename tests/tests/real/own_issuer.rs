//! Real clients that know nothing but the URL of the gateway, which is its own authorization server and sends people
//! through identity providers that somebody else wrote.

use serde_json::Value;
use vmcp_tests::counterparts::{
    Client, Era, Fixture, Gateway, LoggedIn, Person, Redis, UpstreamProvider, post_form, skipped,
};
use vmcp_tests::fixture::Generation;

/// A provider of this name, with a client that is known there or registers itself.
fn upstream(name: &str, provider: &UpstreamProvider, client: &str, back: &str) -> String {
    let at = provider.issuer();
    format!(
        "  - name: {name}\n    type: oauth2\n    oauth2Config:\n      authorizationEndpoint: \"{at}/auth\"\n      \
         tokenEndpoint: \"{at}/token\"\n      {client}\n      redirectUri: \"{back}\"\n      \
         scopes: [openid, profile, email, offline_access]\n      \
         additionalAuthorizationParams: {{prompt: consent}}\n      userInfo: {{endpointUrl: \"{at}/me\"}}\n"
    )
}

/// A gateway that sends people through two providers, the second of which rotates its refresh tokens, and shows its
/// backend the second one's token.
async fn gateway(
    first: &UpstreamProvider,
    second: &UpstreamProvider,
    backend: &str,
    redis: Option<&Redis>,
) -> Gateway {
    let secrets = std::env::temp_dir().join(format!(
        "vmcp-own-issuer-{}-{}",
        std::process::id(),
        redis.is_some()
    ));
    std::fs::create_dir_all(&secrets).unwrap();
    let secret = |name: &str, text: &str| {
        let path = secrets.join(name);
        std::fs::write(&path, text).unwrap();
        format!("{{file: \"{}\"}}", path.display())
    };
    let known = format!(
        "clientId: basic\n      clientSecretRef: {}",
        secret("client", "basic: s3cr3t+/%\n")
    );
    let dynamic = format!(
        "dcrConfig: {{registrationEndpoint: \"{}/reg\", initialAccessTokenRef: {}}}",
        second.issuer(),
        secret("token", "1nitial\n")
    );
    let storage = redis.map_or_else(String::new, |redis| {
        let password = secret("password", "canary\n");
        format!(
            "  storage: {{type: redis, redis: {{addr: \"127.0.0.1:{}\", \
             aclUserConfig: {{passwordSecretRef: {password}}}}}}}\n",
            redis.port
        )
    });
    let yaml = |url: &str| {
        let origin = url.trim_end_matches("/mcp");
        let back = format!("{origin}/oauth/callback");
        let upstreams =
            upstream("first", first, &known, &back) + &upstream("second", second, &dynamic, &back);
        format!(
            "name: tests\n\
             incomingAuth:\n  \
               type: oidc\n  \
               oidc: {{issuer: \"{origin}\", clientId: gateway, audience: \"{url}\", insecureAllowHttp: true, \
                 protectedResourceAllowPrivateIp: true, scopes: [tools]}}\n\
             authServer:\n  issuer: \"{origin}\"\n{storage}  upstreamProviders:\n{upstreams}\
             outgoingAuth: {{source: inline, default: {{type: upstream_inject, \
               upstreamInject: {{providerName: second}}}}}}\n\
             backends:\n\
             - {{name: fixture, url: \"{backend}\", transport: streamable-http}}\n\
             aggregation:\n  \
               conflictResolution: priority\n  \
               conflictResolutionConfig: {{priorityOrder: [fixture]}}\n"
        )
    };
    Gateway::start_knowing(yaml).await.unwrap()
}

/// Logs in, lists, and calls a tool that tells what the backend was shown.
async fn comes_through(
    client: Client,
    era: Era,
    gateway: &Gateway,
    providers: [&UpstreamProvider; 2],
) {
    let who = format!("{client:?} in era {}", era.name());
    let client = LoggedIn::start(client, gateway.url(), era, true, Person::named("ann")).await;
    let mut client = client.unwrap_or_else(|fault| panic!("{who}: {fault}\n{}", gateway.log()));
    let tools = client.tools().await.unwrap();
    assert!(tools.contains(&"fixture_whoami".to_owned()), "{who}: {tools:?}");
    let seen: Value = serde_json::from_str(&client.call("fixture_whoami").await.unwrap()).unwrap();
    let shown = seen["headers"]["authorization"].as_str().unwrap();
    let form = format!("access_token={}", shown.strip_prefix("Bearer ").unwrap());
    let [first, second] = providers;
    let asked = |provider: &UpstreamProvider| format!("{}/me", provider.issuer());
    let own = post_form(&asked(second), &form).await.unwrap();
    assert_eq!(own.status, 200, "{who}: the second provider knows it");
    let told: Value = serde_json::from_slice(&own.body).unwrap();
    assert_eq!(told["sub"], "ann", "{who}");
    assert_eq!(post_form(&asked(first), &form).await.unwrap().status, 401, "{who}");
    assert_eq!(client.known().authorizations, 1, "{who}: {:?}", client.known());
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_log_in_through_two_providers_and_their_backend_is_shown_the_second_ones_token() {
    if skipped() {
        return;
    }
    let (first, second) = (
        UpstreamProvider::start(false).await.unwrap(),
        UpstreamProvider::start(true).await.unwrap(),
    );
    let fixture = Fixture::start(Generation::Both).await.unwrap();
    let gateway = gateway(&first, &second, fixture.url(), None).await;
    for (client, era) in [
        (Client::PythonMcp, Era::Legacy),
        (Client::PythonMcp, Era::Modern),
        (Client::TypeScript1, Era::Legacy),
        (Client::TypeScript2, Era::Modern),
    ] {
        comes_through(client, era, &gateway, [&first, &second]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_logs_in_where_the_state_is_in_redis() {
    if skipped() {
        return;
    }
    let redis = Redis::start(&["--requirepass", "canary"]).await.unwrap();
    let (first, second) = (
        UpstreamProvider::start(false).await.unwrap(),
        UpstreamProvider::start(true).await.unwrap(),
    );
    let fixture = Fixture::start(Generation::Both).await.unwrap();
    let gateway = gateway(&first, &second, fixture.url(), Some(&redis)).await;
    comes_through(Client::PythonMcp, Era::Modern, &gateway, [&first, &second]).await;
    let keys = redis.cli(&["-a", "canary", "--no-auth-warning", "KEYS", "vmcp:auth:v1:*"]).await;
    let keys = keys.unwrap();
    assert!(keys.contains("client:") && keys.contains("session:"), "{keys}");
}
