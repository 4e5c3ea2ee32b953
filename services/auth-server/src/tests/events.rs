//! Tests for the events sent to an observer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Request;
use serde_json::json;
use vmcp_auth_store::SessionId;
use vmcp_core::UpstreamKind;
use vmcp_upstream::RefreshError;

use crate::testing::{Browser, RESOURCE, VERIFIER, World, form_request, param};
use crate::{Event, Happened, Lost, Refusal, Reused, Revoker};

/// Event in text form.
#[derive(Clone, Debug)]
struct Seen {
    what: String,
    client: Option<String>,
    user: Option<String>,
    session: Option<SessionId>,
    all: String,
}

/// Server and its recorded events.
struct Observed {
    world: World,
    events: Arc<Mutex<Vec<Seen>>>,
}

impl Observed {
    fn new() -> Self {
        let events = Arc::<Mutex<Vec<Seen>>>::default();
        let told = Arc::clone(&events);
        let observer = move |event: &Event<'_>| told.lock().unwrap().push(seen(event));
        let World { server, store, clock, corp, git } = World::new();
        let server = server.observed_by(Arc::new(observer));
        Self { world: World { server, store, clock, corp, git }, events }
    }

    /// Returns the events since the last call.
    fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.events.lock().unwrap())
    }

    fn words(&self) -> Vec<String> {
        self.take().into_iter().map(|seen| seen.what).collect()
    }
}

fn seen(event: &Event<'_>) -> Seen {
    let refused = |by: &str, refusal: &Refusal| {
        format!("{by} {} {}", refusal.status.as_u16(), refusal.error.unwrap_or(refusal.reason))
    };
    let what = match event.what {
        Happened::LoginStarted { remembered, .. } => format!("started remembered={remembered}"),
        Happened::ConsentGiven => "given".to_owned(),
        Happened::ConsentDenied => "denied".to_owned(),
        Happened::LoginCompleted { .. } => "completed".to_owned(),
        Happened::LoginFailed { provider, refusal } => {
            refused(&format!("failed by {}", provider.unwrap_or("us")), &refusal)
        }
        Happened::UpstreamLinked { provider, scopes } => format!("linked {provider} {scopes:?}"),
        Happened::UpstreamUnlinked { provider } => format!("unlinked {provider}"),
        Happened::UpstreamLost { provider, lost } => format!("lost {provider} {}", lost.name()),
        Happened::TokenIssued { audience, .. } => format!("issued {audience:?}"),
        Happened::TokenRefreshed { repeated, .. } => format!("refreshed repeated={repeated}"),
        Happened::TokenRefused { refusal } => refused("refused", &refusal),
        Happened::TokenReused { token } => format!("reused {}", token.name()),
        Happened::TokenRevoked { by } => format!("revoked by {}", by.name()),
        Happened::ClientRegistered { name, .. } => format!("registered {name:?}"),
        Happened::ClientRefused { refusal } => refused("client refused", &refusal),
    };
    let text = |text: Option<&str>| text.map(str::to_owned);
    let (client, user) = (text(event.client), text(event.user));
    Seen { what, client, user, session: event.session, all: format!("{event:?}") }
}

#[tokio::test]
async fn a_login_is_told_step_by_step_and_belongs_to_one_session() {
    let it = Observed::new();
    let client = it.world.client().await;
    assert_eq!(it.words(), ["registered Some(\"Editor\")"]);
    let got = it.world.tokens(&client).await;
    let told = it.take();
    let words: Vec<_> = told.iter().map(|seen| &*seen.what).collect();
    let issued = format!("issued {:?}", [RESOURCE]);
    assert_eq!(
        words,
        [
            "started remembered=false",
            "given",
            "linked corp [\"read\"]",
            "linked git [\"read\"]",
            "completed",
            &issued,
        ]
    );
    let session = it.world.server.verifier(RESOURCE).unwrap().verify(&got.access).unwrap().session;
    assert!(told.iter().all(|seen| seen.client.as_deref() == Some(&*client)), "{told:?}");
    assert!(told.iter().all(|seen| seen.session == Some(session)), "{told:?}");
    // The user is known from the first provider's callback on.
    let known: Vec<_> = told.iter().map(|seen| seen.user.is_some()).collect();
    assert_eq!(known, [false, false, true, true, true, true]);
}

#[tokio::test]
async fn a_refresh_a_repetition_and_a_replay_are_told_apart() {
    let it = Observed::new();
    let client = it.world.client().await;
    let got = it.world.tokens(&client).await;
    it.take();
    let next = it.world.refresh(&client, &got.refresh).await.tokens();
    it.world.refresh(&client, &got.refresh).await;
    assert_eq!(it.words(), ["refreshed repeated=false", "refreshed repeated=true"]);
    it.world.refresh(&client, &next.refresh).await;
    it.take();
    assert_eq!(it.world.refresh(&client, &got.refresh).await.error(), "invalid_grant");
    let told = it.take();
    let words: Vec<_> = told.iter().map(|seen| &*seen.what).collect();
    assert_eq!(words, ["reused refresh_token", "refused 400 invalid_grant"]);
    assert!(told[0].user.is_some() && told[0].session.is_some(), "{told:?}");
}

#[tokio::test]
async fn a_code_that_is_presented_again_is_told() {
    let it = Observed::new();
    let client = it.world.client().await;
    let code = it.world.code(&client).await;
    it.world.redeem(&client, &code, &[]).await;
    it.take();
    it.world.redeem(&client, &code, &[]).await;
    assert_eq!(it.words(), ["reused code", "refused 400 invalid_grant"]);
}

#[tokio::test]
async fn who_refuses_a_login_is_told() {
    let it = Observed::new();
    let client = it.world.client().await;
    it.take();
    let mut browser = Browser::default();
    browser.get(&it.world, &World::authorize("nobody", &[])).await;
    let told = it.take();
    assert_eq!(told[0].what, "failed by us 400 This application is not known here");
    assert_eq!(told[0].client.as_deref(), Some("nobody"));

    let no_pkce = World::authorize(&client, &[("code_challenge", "")]);
    browser.get(&it.world, &no_pkce).await;
    assert_eq!(it.words(), ["failed by us 400 invalid_request"]);

    let page = browser.get(&it.world, &World::authorize(&client, &[])).await;
    browser.send(&it.world, World::decision(&page.text, "deny")).await;
    assert_eq!(it.words(), ["started remembered=false", "denied"]);

    let corp = it.world.consent(&mut browser, &World::authorize(&client, &[])).await;
    it.take();
    let state = param(&url::Url::parse(&corp).unwrap(), "state").unwrap();
    let refused = format!("/oauth/callback?state={state}&error=access_denied");
    browser.get(&it.world, &refused).await;
    assert_eq!(it.words(), ["failed by corp 403 access_denied"]);

    // The second provider is unavailable after the first one authenticated the user.
    let corp = it.world.consent(&mut browser, &World::authorize(&client, &[])).await;
    it.take();
    it.world.git.set(|script| script.begin = Some(unreachable_provider()));
    browser.get(&it.world, &World::at_provider(&corp)).await;
    assert_eq!(it.words(), ["linked corp [\"read\"]", "failed by git 503 temporarily_unavailable"]);

    browser.get(&it.world, "/oauth/callback?state=unknown&code=x").await;
    assert_eq!(it.words(), ["failed by us 400 This login is over"]);
}

#[tokio::test]
async fn a_login_that_ends_in_another_browser_is_told_with_its_client() {
    let it = Observed::new();
    let client = it.world.client().await;
    let corp = it.world.consent(&mut Browser::default(), &World::authorize(&client, &[])).await;
    it.take();
    Browser::default().get(&it.world, &World::at_provider(&corp)).await;
    let told = it.take();
    assert_eq!(told[0].what, "failed by us 403 This login began in another browser");
    assert_eq!((told.len(), told[0].client.as_deref()), (1, Some(&*client)));
}

#[tokio::test]
async fn what_the_token_endpoints_refuse_is_told_with_the_client_that_asked() {
    let it = Observed::new();
    for (path, form, expected) in [
        ("/oauth/token", vec![("grant_type", "password"), ("client_id", "x")], "400 unsupported"),
        ("/oauth/revoke", vec![("client_id", "x"), ("token", "t")], "401 invalid_client"),
        ("/oauth/introspect", vec![("client_id", "x"), ("token", "t")], "401 invalid_client"),
    ] {
        it.world.send(form_request(path, &form)).await;
        let told = it.take();
        assert_eq!(told.len(), 1, "{path} {told:?}");
        assert!(told[0].what.starts_with(&format!("refused {expected}")), "{path} {told:?}");
        assert_eq!(told[0].client.as_deref(), Some("x"), "{path}");
    }
    it.world.register(json!({"redirect_uris": ["http://elsewhere.example"]})).await;
    assert_eq!(it.words(), ["client refused 400 invalid_redirect_uri"]);
}

#[tokio::test]
async fn the_end_of_a_grant_is_told_with_who_ended_it() {
    let it = Observed::new();
    let client = it.world.client().await;
    for token in ["refresh", "access"] {
        let got = it.world.tokens(&client).await;
        it.take();
        let token = if token == "access" { &got.access } else { &got.refresh };
        it.world.post("/oauth/revoke", &[("client_id", &client), ("token", token)]).await;
        let told = it.take();
        assert_eq!((told.len(), &*told[0].what), (1, "revoked by client"));
        assert!(told[0].user.is_some() && told[0].session.is_some(), "{told:?}");
        // A second revocation causes no second event.
        it.world.post("/oauth/revoke", &[("client_id", &client), ("token", &got.refresh)]).await;
        assert!(it.words().is_empty());
    }
}

#[tokio::test]
async fn a_link_that_is_taken_away_or_dies_is_told() {
    let it = Observed::new();
    let client = it.world.client().await;
    let mut browser = Browser::default();
    let answer = it.world.log_in_at(&mut browser, &World::authorize(&client, &[])).await;
    let code = param(&answer, "code").unwrap();
    let got = it.world.redeem(&client, &code, &[]).await.tokens();
    let session = it.world.server.verifier(RESOURCE).unwrap().verify(&got.access).unwrap().session;
    it.take();

    let tokens = it.world.server.tokens(session);
    it.world.git.set(|script| script.refresh = Some(RefreshError::GrantEnded));
    it.world.clock.advance(Duration::from_secs(3600));
    assert!(tokens.token("git", UpstreamKind::Access).await.is_err());
    let told = it.take();
    assert_eq!((told.len(), &*told[0].what), (1, "lost git dead"));
    assert!(told[0].user.is_some() && told[0].client.is_some(), "{told:?}");

    let page = browser.get(&it.world, "/oauth/connections").await;
    let from = page.text.split_once("name=\"csrf\" value=\"").unwrap().1;
    let csrf = from.split_once('"').unwrap().0;
    let session = session.to_text();
    for (action, provider, expected) in
        [("unlink", Some("corp"), "unlinked corp"), ("end", None, "revoked by person")]
    {
        let mut form = vec![("csrf", csrf), ("session", &session), ("action", action)];
        form.extend(provider.map(|provider| ("provider", provider)));
        browser.send(&it.world, form_request("/oauth/connections", &form)).await;
        assert_eq!(it.words(), [expected]);
    }
}

#[tokio::test]
async fn no_event_holds_a_secret() {
    let it = Observed::new();
    let client = it.world.client().await;
    let mut browser = Browser::default();
    let answer = it.world.log_in_at(&mut browser, &World::authorize(&client, &[])).await;
    let code = param(&answer, "code").unwrap();
    let got = it.world.redeem(&client, &code, &[]).await.tokens();
    it.world.redeem(&client, &code, &[("code_verifier", VERIFIER)]).await;
    it.world.refresh(&client, &got.refresh).await;
    browser.get(&it.world, "/oauth/callback?error=canary&state=canary").await;
    let basic = Request::post("/oauth/token")
        .header("authorization", "Basic Y2FuYXJ5OmNhbmFyeQ==")
        .header("content-type", "application/x-www-form-urlencoded");
    it.world.send(basic.body("grant_type=refresh_token&refresh_token=r".into()).unwrap()).await;
    let told = it.take();
    assert!(told.len() > 10, "{told:?}");
    let cookie = browser.cookie.unwrap();
    let cookie = cookie.split_once('=').unwrap().1;
    for seen in &told {
        for secret in [&*code, &*got.access, &*got.refresh, VERIFIER, cookie, "-canary", APP_STATE]
        {
            assert!(!seen.all.contains(secret), "{secret} in {seen:?}");
        }
    }
}

#[test]
fn every_cause_has_a_word_of_its_own() {
    let lost = [Lost::Dead, Lost::SubjectChanged, Lost::NotKept].map(Lost::name);
    let reused = [Reused::Code, Reused::RefreshToken].map(Reused::name);
    let by = [Revoker::Client, Revoker::Person].map(Revoker::name);
    assert_eq!(lost, ["dead", "subject_changed", "not_kept"]);
    assert_eq!((reused, by), (["code", "refresh_token"], ["client", "person"]));
}

/// Value of `state` in the tests' requests.
const APP_STATE: &str = "client-state";

fn unreachable_provider() -> vmcp_upstream::ProviderError {
    use vmcp_upstream::{EndpointError, EndpointKind, ProviderError};
    ProviderError::Unavailable { endpoint: EndpointKind::Token, cause: EndpointError::Unreachable }
}
