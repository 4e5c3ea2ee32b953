//! Findings of `vmcp doctor` for a gateway with an external authorization server, and for one with its own.

use url::Url;
use vmcp_doctor::{Client, examine};
use vmcp_egress::{Egress, FetchAddresses, FetchPolicy, Fetcher};
use vmcp_tests::counterparts::{Gateway, skipped};

use super::auth_server::AuthServerEnv;
use super::issuing::TestEnv;

/// Asserts that the doctor reports no problem for discovery and registration.
async fn finds_nothing_amiss(gateway: &Gateway) {
    let policy =
        FetchPolicy { addresses: FetchAddresses::Any, http: true, ..FetchPolicy::supplied() };
    let http = Fetcher::new(Egress::default(), policy).unwrap();
    let url = Url::parse(gateway.url()).unwrap();
    for client in Client::ALL {
        let report = examine(http.clone(), client, &url, true).await;
        assert_eq!(report.mismatch(), None, "{report:#?}");
        let opened = report.steps.last().unwrap();
        assert!(opened.found.contains("resource=http%3A%2F%2F127.0.0.1"), "{opened:?}");
        assert!(!opened.found.contains("CLIENT_ID") || client == Client::Claude, "{opened:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_discovers_authorization_server_and_registers() {
    if skipped() {
        return;
    }
    let world = AuthServerEnv::start().await;
    let gateway = Gateway::start_knowing(|url| {
        format!(
            "name: x\nbackends: []\nincomingAuth:\n  type: oidc\n  oidc: {{issuer: \"{}\", clientId: x, \
             audience: \"{url}\", insecureAllowHttp: true}}\n",
            world.issuer
        )
    })
    .await
    .unwrap();
    finds_nothing_amiss(&gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_client_discovers_gateway_with_own_authorization_server() {
    if skipped() {
        return;
    }
    let ground = TestEnv::plain().await;
    finds_nothing_amiss(&ground.gateway("").await).await;
}
