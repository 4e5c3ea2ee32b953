//! Logins at independent identity providers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use vmcp_core::Clock;
use vmcp_egress::{Egress, FetchPolicy, Fetcher};
use vmcp_tests::counterparts::{Person, UpstreamProvider, skipped};
use vmcp_upstream::{
    AuthorizationResponse, AuthorizationResponseError, AuthorizationState, Client, DynamicClient,
    Endpoint, FaultParty, FieldMapping, Issuer, Kind, Login, MemoryRegistrations, Oauth2, Oidc,
    Params, Plaintext, Provider, ProviderError, RefreshError, RegistrationSource,
    RevocationOutcome, Scopes, Settings, StaticClient, UserInfo,
};

fn endpoint(url: &str) -> Endpoint {
    Endpoint::new(url).unwrap()
}

fn settings(name: &str, kind: Kind) -> Settings {
    let consent = [("prompt".to_owned(), "consent".to_owned())];
    Settings {
        name: name.into(),
        kind,
        redirect_uri: endpoint("http://127.0.0.1:9/oauth/callback"),
        scopes: Scopes::new(["openid", "profile", "email", "offline_access"]).unwrap(),
        params: Params::new(consent).unwrap(),
        client_name: "vmcp".into(),
    }
}

fn provider(settings: Settings) -> Provider {
    let fetcher = |policy| Fetcher::new(Egress::default(), policy).unwrap();
    let (ours, theirs) = (fetcher(FetchPolicy::configured()), fetcher(FetchPolicy::supplied()));
    Provider::new(settings, ours, theirs, Arc::new(MemoryRegistrations), Clock::system()).unwrap()
}

fn oidc(idp: &UpstreamProvider, id: &str, secret: Option<&str>) -> Provider {
    let issuer = Issuer::new(&idp.issuer()).unwrap();
    let client = StaticClient::new(id, secret.map(Into::into)).unwrap();
    provider(settings(id, Kind::Oidc(Box::new(Oidc { issuer, client, user_info: None }))))
}

fn oauth2(idp: &UpstreamProvider, client: Client) -> Provider {
    let at = |path: &str| endpoint(&format!("{}{path}", idp.issuer()));
    let fields = FieldMapping::new(vec!["login", "sub"], vec!["name"], vec!["email"]).unwrap();
    let user_info = UserInfo { fields, ..UserInfo::new(at("/me")) };
    let kind = Kind::Oauth2(Box::new(Oauth2 {
        authorization_endpoint: at("/auth"),
        token_endpoint: at("/token"),
        client,
        token_mapping: None,
        user_info: Some(user_info),
    }));
    provider(settings("second", kind))
}

fn dynamic(idp: &UpstreamProvider, token: &str) -> Client {
    let place = endpoint(&format!("{}/.well-known/openid-configuration", idp.issuer()));
    let dynamic = DynamicClient::new(RegistrationSource::Discovery(place)).unwrap();
    let dynamic = dynamic.initial_access_token(token.into()).unwrap();
    Client::Dynamic(dynamic.software_id("vmcp"))
}

/// Returns the parameters of the browser's redirect.
fn answer(back: &str) -> (String, AuthorizationResponse) {
    let query = back.split_once('?').unwrap().1;
    let decoded = |value: &str| value.replace("%3A", ":").replace("%2F", "/");
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut pairs: HashMap<_, _> = pairs.map(|(name, value)| (name, decoded(value))).collect();
    let code = pairs.remove("code").unwrap_or_else(|| panic!("{back}"));
    (
        pairs["state"].clone(),
        AuthorizationResponse { outcome: Ok(code.into()), iss: pairs.remove("iss") },
    )
}

async fn browse(provider: &Provider, name: &str) -> (AuthorizationState, AuthorizationResponse) {
    let (page, leg) = provider.begin("st4te").await.unwrap();
    let back = Person::named(name).logs_in(&page.to_string()).await.unwrap();
    let (state, answer) = answer(&back);
    assert_eq!(state, "st4te");
    // In the form in which a store keeps it.
    let kept = serde_json::to_vec(&Plaintext(&leg)).unwrap();
    (serde_json::from_slice::<Plaintext<AuthorizationState>>(&kept).unwrap().0, answer)
}

async fn login(provider: &Provider, name: &str) -> Login {
    let (leg, answer) = browse(provider, name).await;
    provider.finish(&leg, answer).await.unwrap()
}

fn refresh_token(login: &Login) -> &str {
    login.tokens.refresh.as_ref().map(SecretString::expose_secret).unwrap()
}

fn code(fault: &ProviderError) -> &str {
    match fault {
        ProviderError::Rejected { code, .. } => code,
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_client_type_logs_in_and_refreshes() {
    if skipped() {
        return;
    }
    let idp = UpstreamProvider::start(false).await.unwrap();
    for (id, secret) in
        [("basic", Some("basic: s3cr3t+/%")), ("post", Some("post: s3cr3t+/%")), ("public", None)]
    {
        let provider = oidc(&idp, id, secret);
        provider.check().await.unwrap();
        let login = login(&provider, "alice").await;
        assert_eq!((&*login.subject, login.is_synthetic), ("alice", false), "{id}");
        // The id token lacks the claims; the discovered userinfo endpoint has them.
        assert_eq!(login.name.as_deref(), Some("The alice"));
        assert_eq!(login.email.as_deref(), Some("alice@example.com"));
        assert!(login.tokens.expires_at.unwrap() > SystemTime::now());
        let newer = provider.refresh(&login.tokens).await.unwrap();
        assert_ne!(newer.access.expose_secret(), login.tokens.access.expose_secret());
        assert_eq!(newer.refresh.as_ref().unwrap().expose_secret(), refresh_token(&login));
        assert!(provider.refresh(&login.tokens).await.is_ok(), "it is good for more than one");
        assert_eq!(provider.revoke(&newer).await, Ok(RevocationOutcome::Revoked));
        assert_eq!(provider.refresh(&newer).await.unwrap_err(), RefreshError::GrantEnded);
    }
    let mallory = login(&oidc(&idp, "public", None), "mallory").await;
    assert_eq!(mallory.email, None, "an address that is not verified");
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_in_at_rotating_and_non_rotating_providers() {
    if skipped() {
        return;
    }
    let (first, second) = (
        UpstreamProvider::start(false).await.unwrap(),
        UpstreamProvider::start(true).await.unwrap(),
    );
    let one = oidc(&first, "basic", Some("basic: s3cr3t+/%"));
    let two = oauth2(&second, dynamic(&second, "1nitial"));
    two.check().await.unwrap();
    let (here, there) = (login(&one, "alice").await, login(&two, "al").await);
    assert_eq!((&*here.subject, &*there.subject), ("alice", "al"));
    assert_eq!(there.email.as_deref(), Some("al@example.com"));
    assert_ne!(&*there.tokens.client_id, "basic");
    let again = login(&two, "al").await;
    assert_eq!(again.tokens.client_id, there.tokens.client_id, "it registers once");

    let newer = two.refresh(&there.tokens).await.unwrap();
    assert_ne!(newer.refresh.as_ref().unwrap().expose_secret(), refresh_token(&there));
    let newest = two.refresh(&newer).await.unwrap();
    // Reuse of a token ends the grant with its newest token; the other provider's grant is not affected.
    assert_eq!(two.refresh(&there.tokens).await.unwrap_err(), RefreshError::GrantEnded);
    assert_eq!(two.refresh(&newest).await.unwrap_err(), RefreshError::GrantEnded);
    assert!(one.refresh(&here.tokens).await.is_ok());

    second.kill().await.unwrap();
    let down = two.refresh(&again.tokens).await.unwrap_err();
    assert!(
        matches!(&down, RefreshError::Temporary(fault) if fault.fault_party() == FaultParty::Provider)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_invalid_authorization_responses() {
    if skipped() {
        return;
    }
    let idp = UpstreamProvider::start(false).await.unwrap();
    let provider = oidc(&idp, "public", None);

    let (leg, answer) = browse(&provider, "alice").await;
    assert_eq!(answer.iss.as_deref(), Some(&*idp.issuer()), "it says who it is");
    let silent = AuthorizationResponse { iss: None, ..answer.clone() };
    let refused = provider.finish(&leg, silent).await.unwrap_err();
    assert_eq!(refused, AuthorizationResponseError::MissingIssuer.into());
    let other =
        AuthorizationResponse { iss: Some("https://other.example".into()), ..answer.clone() };
    let refused = provider.finish(&leg, other).await.unwrap_err();
    assert_eq!(refused, AuthorizationResponseError::WrongIssuer.into());

    // The verifier of another login, then the right one: the code may be consumed, but is never valid for both.
    let mut kept: Value = serde_json::to_value(Plaintext(&leg)).unwrap();
    kept["verifier"] = json!("a".repeat(43));
    let stolen = serde_json::from_value::<Plaintext<AuthorizationState>>(kept).unwrap().0;
    let refused = provider.finish(&stolen, answer).await.unwrap_err();
    assert_eq!((code(&refused), refused.fault_party()), ("invalid_grant", FaultParty::Browser));

    let (leg, answer) = browse(&provider, "alice").await;
    assert!(provider.finish(&leg, answer.clone()).await.is_ok());
    let refused = provider.finish(&leg, answer).await.unwrap_err();
    assert_eq!(code(&refused), "invalid_grant");

    let wrong = oidc(&idp, "basic", Some("wrong"));
    let (leg, answer) = browse(&wrong, "alice").await;
    let refused = wrong.finish(&leg, answer).await.unwrap_err();
    assert_eq!((code(&refused), refused.fault_party()), ("invalid_client", FaultParty::Operator));

    let unwelcome = oauth2(&idp, dynamic(&idp, "wrong"));
    let refused = unwelcome.begin("s").await.unwrap_err();
    assert_eq!(refused.fault_party(), FaultParty::Operator, "{refused}");
    let elsewhere = Issuer::new(&format!("{}/tenant", idp.issuer())).unwrap();
    let client = StaticClient::new("public", None).unwrap();
    let kind = Kind::Oidc(Box::new(Oidc { issuer: elsewhere, client, user_info: None }));
    let misfit = self::provider(settings("misfit", kind)).check().await.unwrap_err();
    assert_eq!(misfit.fault_party(), FaultParty::Operator, "{misfit}");
}
