//! Tests for the events sent to an observer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use serde_json::json;
use vmcp_auth_store::SessionId;
use vmcp_core::UpstreamKind;
use vmcp_upstream::RefreshError;

use crate::testing::{RESOURCE, TestEnv, UserAgent, VERIFIER, form_request, param};
use crate::{Event, EventContext, EventKind, LinkLossReason, Rejection, ReplayedToken, RevokedBy};

/// Event in text form.
#[derive(Clone, Debug)]
struct RecordedEvent {
    what: String,
    client: Option<String>,
    user: Option<String>,
    session: Option<SessionId>,
    all: String,
}

/// Server and its recorded events.
struct ObservedEnv {
    env: TestEnv,
    events: Arc<Mutex<Vec<RecordedEvent>>>,
}

impl ObservedEnv {
    fn new() -> Self {
        let events = Arc::<Mutex<Vec<RecordedEvent>>>::default();
        let recorded = Arc::clone(&events);
        let observer = move |event: &Event<'_>| recorded.lock().unwrap().push(record(event));
        let TestEnv { server, store, clock, corp, git } = TestEnv::new();
        let server = server.with_observer(Arc::new(observer));
        Self { env: TestEnv { server, store, clock, corp, git }, events }
    }

    /// Returns the events since the last call.
    fn take(&self) -> Vec<RecordedEvent> {
        std::mem::take(&mut *self.events.lock().unwrap())
    }

    fn words(&self) -> Vec<String> {
        self.take().into_iter().map(|seen| seen.what).collect()
    }
}

fn record(event: &Event<'_>) -> RecordedEvent {
    let refused = |by: &str, rejection: &Rejection| {
        format!(
            "{by} {} {}",
            rejection.status.as_u16(),
            rejection.error.unwrap_or(rejection.reason)
        )
    };
    let what = match event.kind {
        EventKind::LoginStarted { remembered, .. } => format!("started remembered={remembered}"),
        EventKind::ConsentGiven => "given".to_owned(),
        EventKind::ConsentDenied => "denied".to_owned(),
        EventKind::LoginCompleted { .. } => "completed".to_owned(),
        EventKind::LoginFailed { provider, rejection } => {
            refused(&format!("failed by {}", provider.unwrap_or("us")), &rejection)
        }
        EventKind::UpstreamLinked { provider, scopes } => format!("linked {provider} {scopes:?}"),
        EventKind::UpstreamUnlinked { provider } => format!("unlinked {provider}"),
        EventKind::UpstreamLinkLost { provider, reason } => {
            format!("lost {provider} {}", reason.name())
        }
        EventKind::TokenIssued { audience, .. } => format!("issued {audience:?}"),
        EventKind::TokenRefreshed { repeated, .. } => format!("refreshed repeated={repeated}"),
        EventKind::TokenRejected { rejection } => refused("refused", &rejection),
        EventKind::TokenReplayed { token } => format!("reused {}", token.name()),
        EventKind::TokenRevoked { by } => format!("revoked by {}", by.name()),
        EventKind::ClientRegistered { name, .. } => format!("registered {name:?}"),
        EventKind::RegistrationRejected { rejection } => refused("client refused", &rejection),
    };
    let text = |text: Option<&str>| text.map(str::to_owned);
    let (client, user) = (text(event.client), text(event.user));
    RecordedEvent { what, client, user, session: event.session, all: format!("{event:?}") }
}

#[tokio::test]
async fn reports_each_login_step_in_one_session() {
    let observed = ObservedEnv::new();
    let client = observed.env.client().await;
    assert_eq!(observed.words(), ["registered Some(\"Editor\")"]);
    let issued = observed.env.tokens(&client).await;
    let told = observed.take();
    let words: Vec<_> = told.iter().map(|seen| &*seen.what).collect();
    let issuance = format!("issued {:?}", [RESOURCE]);
    assert_eq!(
        words,
        [
            "started remembered=false",
            "given",
            "linked corp [\"read\"]",
            "linked git [\"read\"]",
            "completed",
            &issuance,
        ]
    );
    let session =
        observed.env.server.verifier(RESOURCE).unwrap().verify(&issued.access).unwrap().session;
    assert!(told.iter().all(|seen| seen.client.as_deref() == Some(&*client)), "{told:?}");
    assert!(told.iter().all(|seen| seen.session == Some(session)), "{told:?}");
    // The user is known from the first provider's callback on.
    let known: Vec<_> = told.iter().map(|seen| seen.user.is_some()).collect();
    assert_eq!(known, [false, false, true, true, true, true]);
}

#[tokio::test]
async fn reports_refresh_repetition_and_replay_distinctly() {
    let observed = ObservedEnv::new();
    let client = observed.env.client().await;
    let issued = observed.env.tokens(&client).await;
    observed.take();
    let next = observed.env.refresh(&client, &issued.refresh).await.tokens();
    observed.env.refresh(&client, &issued.refresh).await;
    assert_eq!(observed.words(), ["refreshed repeated=false", "refreshed repeated=true"]);
    observed.env.refresh(&client, &next.refresh).await;
    observed.take();
    assert_eq!(observed.env.refresh(&client, &issued.refresh).await.error(), "invalid_grant");
    let told = observed.take();
    let words: Vec<_> = told.iter().map(|seen| &*seen.what).collect();
    assert_eq!(words, ["reused refresh_token", "refused 400 invalid_grant"]);
    assert!(told[0].user.is_some() && told[0].session.is_some(), "{told:?}");
}

#[tokio::test]
async fn reports_replayed_code() {
    let observed = ObservedEnv::new();
    let client = observed.env.client().await;
    let code = observed.env.code(&client).await;
    observed.env.redeem(&client, &code, &[]).await;
    observed.take();
    observed.env.redeem(&client, &code, &[]).await;
    assert_eq!(observed.words(), ["reused code", "refused 400 invalid_grant"]);
}

#[tokio::test]
async fn reports_party_that_rejected_login() {
    let observed = ObservedEnv::new();
    let client = observed.env.client().await;
    observed.take();
    let mut browser = UserAgent::default();
    browser.get(&observed.env, &TestEnv::authorize("nobody", &[])).await;
    let told = observed.take();
    assert_eq!(told[0].what, "failed by us 400 Unknown application");
    assert_eq!(told[0].client.as_deref(), Some("nobody"));

    let no_pkce = TestEnv::authorize(&client, &[("code_challenge", "")]);
    browser.get(&observed.env, &no_pkce).await;
    assert_eq!(observed.words(), ["failed by us 400 invalid_request"]);

    let page = browser.get(&observed.env, &TestEnv::authorize(&client, &[])).await;
    browser.send(&observed.env, TestEnv::decision(&page.text, "deny")).await;
    assert_eq!(observed.words(), ["started remembered=false", "denied"]);

    let corp = observed.env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
    observed.take();
    let state = param(&url::Url::parse(&corp).unwrap(), "state").unwrap();
    let refused = format!("/oauth/callback?state={state}&error=access_denied");
    browser.get(&observed.env, &refused).await;
    assert_eq!(observed.words(), ["failed by corp 403 access_denied"]);

    // The second provider is unavailable after the first one authenticated the user.
    let corp = observed.env.consent(&mut browser, &TestEnv::authorize(&client, &[])).await;
    observed.take();
    observed.env.git.set(|behavior| behavior.begin = Some(unreachable_provider()));
    browser.get(&observed.env, &TestEnv::provider_callback(&corp)).await;
    assert_eq!(
        observed.words(),
        ["linked corp [\"read\"]", "failed by git 503 temporarily_unavailable"]
    );

    browser.get(&observed.env, "/oauth/callback?state=unknown&code=x").await;
    assert_eq!(observed.words(), ["failed by us 400 This login has expired"]);
}

#[tokio::test]
async fn reports_client_of_login_in_other_browser() {
    let observed = ObservedEnv::new();
    let client = observed.env.client().await;
    let corp =
        observed.env.consent(&mut UserAgent::default(), &TestEnv::authorize(&client, &[])).await;
    observed.take();
    UserAgent::default().get(&observed.env, &TestEnv::provider_callback(&corp)).await;
    let told = observed.take();
    assert_eq!(told[0].what, "failed by us 403 This login started in another browser");
    assert_eq!((told.len(), told[0].client.as_deref()), (1, Some(&*client)));
}

#[tokio::test]
async fn reports_rejected_token_requests_with_client() {
    let observed = ObservedEnv::new();
    for (path, form, expected) in [
        ("/oauth/token", vec![("grant_type", "password"), ("client_id", "x")], "400 unsupported"),
        ("/oauth/revoke", vec![("client_id", "x"), ("token", "t")], "401 invalid_client"),
        ("/oauth/introspect", vec![("client_id", "x"), ("token", "t")], "401 invalid_client"),
    ] {
        observed.env.send(form_request(path, &form)).await;
        let told = observed.take();
        assert_eq!(told.len(), 1, "{path} {told:?}");
        assert!(told[0].what.starts_with(&format!("refused {expected}")), "{path} {told:?}");
        assert_eq!(told[0].client.as_deref(), Some("x"), "{path}");
    }
    observed.env.register(json!({"redirect_uris": ["http://elsewhere.example"]})).await;
    assert_eq!(observed.words(), ["client refused 400 invalid_redirect_uri"]);
}

#[tokio::test]
async fn reports_party_that_revoked_grant() {
    let observed = ObservedEnv::new();
    let client = observed.env.client().await;
    for token in ["refresh", "access"] {
        let issued = observed.env.tokens(&client).await;
        observed.take();
        let token = if token == "access" { &issued.access } else { &issued.refresh };
        observed.env.post("/oauth/revoke", &[("client_id", &client), ("token", token)]).await;
        let told = observed.take();
        assert_eq!((told.len(), &*told[0].what), (1, "revoked by client"));
        assert!(told[0].user.is_some() && told[0].session.is_some(), "{told:?}");
        // A second revocation causes no second event.
        observed
            .env
            .post("/oauth/revoke", &[("client_id", &client), ("token", &issued.refresh)])
            .await;
        assert!(observed.words().is_empty());
    }
}

#[tokio::test]
async fn reports_removed_and_lost_links() {
    let observed = ObservedEnv::new();
    let client = observed.env.client().await;
    let mut browser = UserAgent::default();
    let answer = observed.env.log_in_at(&mut browser, &TestEnv::authorize(&client, &[])).await;
    let code = param(&answer, "code").unwrap();
    let issued = observed.env.redeem(&client, &code, &[]).await.tokens();
    let session =
        observed.env.server.verifier(RESOURCE).unwrap().verify(&issued.access).unwrap().session;
    observed.take();

    let tokens = observed.env.server.upstream_tokens(session);
    observed.env.git.set(|behavior| behavior.refresh = Some(RefreshError::GrantEnded));
    observed.env.clock.advance(Duration::from_hours(1));
    assert!(tokens.token("git", UpstreamKind::Access).await.is_err());
    let told = observed.take();
    assert_eq!((told.len(), &*told[0].what), (1, "lost git dead"));
    assert!(told[0].user.is_some() && told[0].client.is_some(), "{told:?}");

    let page = browser.get(&observed.env, "/oauth/connections").await;
    let from = page.text.split_once("name=\"csrf\" value=\"").unwrap().1;
    let csrf = from.split_once('"').unwrap().0;
    let session = session.to_text();
    for (action, provider, expected) in
        [("unlink", Some("corp"), "unlinked corp"), ("end", None, "revoked by person")]
    {
        let mut form = vec![("csrf", csrf), ("session", &session), ("action", action)];
        form.extend(provider.map(|provider| ("provider", provider)));
        browser.send(&observed.env, form_request("/oauth/connections", &form)).await;
        assert_eq!(observed.words(), [expected]);
    }
}

#[tokio::test]
async fn panicking_observer_leaves_server_error() {
    let log = vmcp_test_support::LogCapture::current_thread();
    let env = TestEnv::new();
    // A clone that is taken before has no observer, and shares everything else.
    let quiet = env.server.clone();
    let server = env.server.clone().with_observer(Arc::new(|_: &Event<'_>| panic!("canary")));
    let env = TestEnv { server, ..env };
    let response = env.register(json!({"redirect_uris": ["https://app.example/cb"]})).await;
    assert_eq!((response.status.as_u16(), response.error().as_str()), (500, "server_error"));
    assert!(!response.text.contains("canary"));
    assert!(log.text().contains("endpoint panicked") && !log.text().contains("canary"));
    let env = TestEnv { server: quiet, ..env };
    assert_eq!(
        env.register(json!({"redirect_uris": ["https://app.example/cb"]})).await.status,
        201
    );
}

#[tokio::test]
async fn events_carry_context_of_their_request() {
    let contexts = Arc::<Mutex<Vec<Option<u8>>>>::default();
    let recorded = Arc::clone(&contexts);
    let observer = move |event: &Event<'_>| {
        recorded.lock().unwrap().push(event.context.and_then(EventContext::get::<u8>).copied());
    };
    let TestEnv { server, store, clock, corp, git } = TestEnv::new();
    let env = TestEnv { server: server.with_observer(Arc::new(observer)), store, clock, corp, git };
    let mut request = form_request("/oauth/token", &[("grant_type", "x")]);
    request.extensions_mut().insert(EventContext::new(7_u8));
    env.send(request).await;
    env.send(form_request("/oauth/token", &[("grant_type", "x")])).await;
    assert_eq!(*contexts.lock().unwrap(), [Some(7), None]);
}

#[tokio::test]
async fn events_contain_no_secrets() {
    let observed = ObservedEnv::new();
    let client = observed.env.client().await;
    let mut browser = UserAgent::default();
    let answer = observed.env.log_in_at(&mut browser, &TestEnv::authorize(&client, &[])).await;
    let code = param(&answer, "code").unwrap();
    let issued = observed.env.redeem(&client, &code, &[]).await.tokens();
    observed.env.redeem(&client, &code, &[("code_verifier", VERIFIER)]).await;
    observed.env.refresh(&client, &issued.refresh).await;
    browser.get(&observed.env, "/oauth/callback?error=canary&state=canary").await;
    let basic = Request::post("/oauth/token")
        .header("authorization", "Basic Y2FuYXJ5OmNhbmFyeQ==")
        .header("content-type", "application/x-www-form-urlencoded");
    observed.env.send(basic.body("grant_type=refresh_token&refresh_token=r".into()).unwrap()).await;
    let told = observed.take();
    assert!(told.len() > 10, "{told:?}");
    let cookie = browser.cookie.unwrap();
    let cookie = cookie.split_once('=').unwrap().1;
    for seen in &told {
        for secret in
            [&*code, &*issued.access, &*issued.refresh, VERIFIER, cookie, "-canary", APP_STATE]
        {
            assert!(!seen.all.contains(secret), "{secret} in {seen:?}");
        }
    }
}

#[test]
fn reasons_have_distinct_names() {
    let lost =
        [LinkLossReason::GrantEnded, LinkLossReason::SubjectChanged, LinkLossReason::StoreFailed]
            .map(LinkLossReason::name);
    let reused = [ReplayedToken::Code, ReplayedToken::RefreshToken].map(ReplayedToken::name);
    let by = [RevokedBy::Client, RevokedBy::User].map(RevokedBy::name);
    assert_eq!(lost, ["dead", "subject_changed", "not_kept"]);
    assert_eq!((reused, by), (["code", "refresh_token"], ["client", "person"]));
}

/// Value of `state` in the tests' requests.
const APP_STATE: &str = "client-state";

fn unreachable_provider() -> vmcp_upstream::ProviderError {
    use vmcp_upstream::{EndpointError, EndpointKind, ProviderError};
    ProviderError::Unavailable { endpoint: EndpointKind::Token, cause: EndpointError::Unreachable }
}
