//! The authorization server's pages in a real browser.

use std::any::Any;

use axum::Router;
use axum::extract::RawQuery;
use axum::response::Html;
use axum::routing::get;
use tokio::net::TcpListener;
use vmcp_auth_store::CodeChallenge;
use vmcp_tests::counterparts::{Browser, Gateway, Sight, UpstreamProvider, Window, skipped};

use super::auth_server::{AuthServerEnv, VERIFIER, register, token};

/// A server, and a client that listens on loopback.
struct Place {
    _servers: Box<dyn Any + Send>,
    issuer: String,
    /// Providers for logins, in order.
    providers: Vec<String>,
    client: String,
    redirect: String,
}

impl Place {
    async fn new() -> Self {
        Self::with_client("Editor").await
    }

    /// Starts a server with a client of this name.
    async fn with_client(name: &str) -> Self {
        let world = AuthServerEnv::start().await;
        let client = world.register_as(name).await;
        let providers = vec![world.first(), world.second()];
        Self::of(world.issuer.clone(), providers, client, Box::new(world)).await
    }

    /// Starts the shipped server with one provider.
    async fn shipped() -> Self {
        // The port of a native client's redirect URI is arbitrary.
        let callback = "http://127.0.0.1/mcp/oauth/callback";
        let provider = UpstreamProvider::start_for(callback, false).await.unwrap();
        let idp = provider.issuer();
        let gateway = Gateway::start_knowing(|url| {
            let issuer = url.trim_end_matches("/mcp");
            format!(
                "name: x\nbackends: []\nincomingAuth:\n  type: oidc\n  oidc: {{issuer: \"{issuer}\", \
                 clientId: x, audience: \"{url}\", insecureAllowHttp: true}}\n\
                 authServer:\n  issuer: \"{issuer}\"\n  upstreamProviders:\n  - name: corp\n    \
                 type: oauth2\n    oauth2Config: {{authorizationEndpoint: \"{idp}/auth\", tokenEndpoint: \
                 \"{idp}/token\", clientId: public, scopes: [openid, email, offline_access], \
                 additionalAuthorizationParams: {{prompt: consent}}, \
                 userInfo: {{endpointUrl: \"{idp}/me\"}}}}\n"
            )
        });
        let gateway = gateway.await.unwrap();
        let issuer = gateway.url().trim_end_matches("/mcp").to_owned();
        let client = register(&issuer, "Editor").await;
        Self::of(issuer, vec![idp], client, Box::new((gateway, provider))).await
    }

    async fn of(
        issuer: String,
        providers: Vec<String>,
        client: String,
        servers: Box<dyn Any + Send>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let redirect = format!("http://{}/callback", listener.local_addr().unwrap());
        let page = "<!DOCTYPE html><html lang=en><title>Client</title><h1>Back at the client</h1>";
        let frame = async |RawQuery(url): RawQuery| {
            Html(format!("<!DOCTYPE html><iframe src=\"{}\"></iframe>", url.unwrap_or_default()))
        };
        let router = Router::new()
            .route("/callback", get(async move || Html(page)))
            .route("/frame", get(frame));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { _servers: servers, issuer, providers, client, redirect }
    }

    fn authorize(&self) -> String {
        let challenge = CodeChallenge::of_verifier(VERIFIER).to_text();
        format!(
            "{}/oauth/authorize?response_type=code&client_id={}&redirect_uri={}&state=the-state\
             &code_challenge={challenge}&code_challenge_method=S256&prompt=consent",
            self.issuer, self.client, self.redirect
        )
    }

    /// Returns a page of the client that embeds another one in a frame.
    fn framing(&self, page: &str) -> String {
        self.redirect.replace("/callback", "/frame?") + page
    }

    fn connections(&self) -> String {
        format!("{}/oauth/connections", self.issuer)
    }

    /// Returns the browser's complaints about pages of this server.
    fn complaints(&self, sight: &Sight) -> Vec<String> {
        let ours = sight.complaints.iter().filter(|it| it.at.starts_with(&self.issuer));
        ours.map(|it| it.text.clone()).collect()
    }

    /// Logs in at both providers, after the consent.
    async fn log_in(&self, browser: &mut Browser, who: &str) -> Sight {
        for provider in &self.providers {
            self.at_provider(browser, provider, who).await;
        }
        browser.until(&self.redirect).await.unwrap()
    }

    async fn at_provider(&self, browser: &mut Browser, provider: &str, who: &str) {
        let sight = browser.until(&format!("{provider}/interaction/")).await.unwrap();
        assert_eq!(self.complaints(&sight), [""; 0]);
        if sight.text.contains("Sign-in") {
            browser.fill("login", who).await.unwrap();
            browser.fill("password", "secret").await.unwrap();
            let sight = browser.click("Sign-in").await.unwrap();
            assert_eq!(self.complaints(&sight), [""; 0]);
        }
        browser.click("Continue").await.unwrap();
    }

    /// Performs a complete login in a window of this kind.
    async fn logged_in(&self, window: Window) -> Browser {
        let mut browser = Browser::start(window).await.unwrap();
        browser.open(&self.authorize()).await.unwrap();
        browser.click("Allow").await.unwrap();
        let back = self.log_in(&mut browser, "alice").await;
        let code = parameter(&back.url, "code").unwrap();
        let form = [
            ("grant_type", "authorization_code"),
            ("client_id", &self.client),
            ("code", code),
            ("redirect_uri", &self.redirect),
            ("code_verifier", VERIFIER),
        ];
        assert!(token(&self.issuer, &form).await["access_token"].is_string());
        browser
    }
}

fn parameter<'a>(url: &'a str, name: &str) -> Option<&'a str> {
    let (_, query) = url.split_once('?')?;
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

/// Returns each kind of window in which pages are audited.
fn windows() -> impl Iterator<Item = Window> {
    let dark = |window| Window { dark: true, ..window };
    [Window::WIDE, dark(Window::WIDE), Window::NARROW, dark(Window::NARROW)].into_iter()
}

/// Returns the accessibility problems of the current page.
async fn amiss(place: &Place, browser: &mut Browser, window: Window) -> Vec<String> {
    let sight = browser.audit().await.unwrap();
    let mut found = sight.audit.clone();
    found.extend(place.complaints(&sight));
    found.extend((sight.lang != "en").then(|| "no language".to_owned()));
    found.extend((sight.headings.len() != 1).then(|| format!("headings: {:?}", sight.headings)));
    found.extend((!sight.title.contains(" – ")).then(|| format!("title: {}", sight.title)));
    found.extend(sight.overflows.then(|| "one has to scroll sideways".to_owned()));
    found.iter().map(|what| format!("{window:?}: {what}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn consents_by_keyboard_without_scripts() {
    if skipped() {
        return;
    }
    let place = Place::new().await;
    let mut browser = Browser::start(Window { scripts: false, ..Window::WIDE }).await.unwrap();
    let sight = browser.open(&place.authorize()).await.unwrap();
    for part in [
        "Editor",
        "127.0.0.1",
        "/mcp",
        "corp",
        "git",
        "Its name is not verified",
        "on this computer",
    ] {
        assert!(sight.text.contains(part), "{part}: {sight:?}");
    }
    assert_eq!(place.complaints(&sight), [""; 0]);
    assert_eq!(
        sight.focus, None,
        "nobody agrees by pressing a key that was meant for another page"
    );
    let mut stops = Vec::new();
    for _ in 0..2 {
        let focus = browser.press("Tab").await.unwrap().focus.unwrap();
        assert!(focus.ring >= 2.0, "{focus:?}");
        stops.push(focus.name);
    }
    assert_eq!(stops, ["Allow", "Deny"]);
    browser.press("Shift+Tab").await.unwrap();
    browser.press("Enter").await.unwrap();

    let back = place.log_in(&mut browser, "alice").await;
    assert_eq!(back.headings, ["Back at the client"]);
    assert_eq!(parameter(&back.url, "state"), Some("the-state"));
    assert!(parameter(&back.url, "iss").unwrap().starts_with("http%3A%2F%2F127.0.0.1"));
    assert!(parameter(&back.url, "code").is_some(), "{back:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn denial_redirects_to_client_with_error() {
    if skipped() {
        return;
    }
    let place = Place::new().await;
    let mut browser = Browser::start(Window::WIDE).await.unwrap();
    browser.open(&place.authorize()).await.unwrap();
    browser.click("Deny").await.unwrap();
    // The user never authorized this client: the login requires the consent page.
    browser.follow("Go back to").await.unwrap();
    let back = browser.until(&place.redirect).await.unwrap();
    assert_eq!(parameter(&back.url, "error"), Some("access_denied"));
    assert_eq!(parameter(&back.url, "state"), Some("the-state"));
    assert!(parameter(&back.url, "iss").is_some());
    assert_eq!(place.complaints(&back), [""; 0]);
    // A user who retries after a denial sees the consent page again.
    let again = browser.open(&place.authorize()).await.unwrap();
    assert_eq!(again.headings, ["Allow Editor to use vmcp on your behalf?"]);
    browser.click("Allow").await.unwrap();
    let back = place.log_in(&mut browser, "alice").await;
    assert!(parameter(&back.url, "code").is_some(), "{back:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_accessible_in_small_and_dark_windows() {
    if skipped() {
        return;
    }
    let place = Place::new().await;
    let mut found = Vec::new();
    for window in windows() {
        let mut browser = place.logged_in(window).await;
        browser.open(&place.connections()).await.unwrap();
        found.extend(amiss(&place, &mut browser, window).await);
        browser.open(&place.authorize()).await.unwrap();
        found.extend(amiss(&place, &mut browser, window).await);
        browser.open(&place.authorize().replace("client_id=", "client_id=un")).await.unwrap();
        let mut trouble = amiss(&place, &mut browser, window).await;
        // A page's own error status is not a complaint about it.
        trouble.retain(|what| !what.contains("Failed to load resource"));
        found.extend(trouble);
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn client_names_never_break_or_inject_into_pages() {
    if skipped() {
        return;
    }
    let mut found = Vec::new();
    for name in ["W".repeat(200), "<h1>x</h1><style>*{display:none}</style>\"'&amp;".to_owned()] {
        let place = Place::with_client(&name).await;
        let mut browser = place.logged_in(Window::NARROW).await;
        for page in [place.authorize(), place.connections()] {
            let sight = browser.open(&page).await.unwrap();
            assert!(sight.text.contains(&name), "{sight:?}");
            found.extend(amiss(&place, &mut browser, Window::NARROW).await);
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_page_unlinks_relinks_and_logs_out() {
    if skipped() {
        return;
    }
    let place = Place::new().await;
    let mut browser = place.logged_in(Window { scripts: false, ..Window::NARROW }).await;
    let sight = browser.open(&place.connections()).await.unwrap();
    for part in ["alice@example.com", "Editor", "corp", "git", "refreshed automatically"] {
        assert!(sight.text.contains(part), "{part}: {sight:?}");
    }
    let first = browser.press("Tab").await.unwrap().focus.unwrap();
    assert!(first.name.starts_with("Link again corp"), "{first:?}");

    browser.click("Unlink git, Editor").await.unwrap();
    let sight = browser.until(&place.connections()).await.unwrap();
    assert!(sight.text.contains("Not linked"), "{sight:?}");
    browser.click("Link git, Editor").await.unwrap();
    place.at_provider(&mut browser, &place.providers[1].clone(), "alice").await;
    let sight = browser.until(&place.connections()).await.unwrap();
    assert!(!sight.text.contains("Not linked"), "{sight:?}");

    browser.click("Log out, Editor").await.unwrap();
    let sight = browser.until(&place.connections()).await.unwrap();
    assert!(sight.text.contains("No connections"), "{sight:?}");
    let sight = browser.click("Forget me in this browser").await.unwrap();
    assert_eq!(sight.headings, ["This browser is forgotten"]);
    assert_eq!(place.complaints(&sight), [""; 0]);
    let sight = browser.open(&place.connections()).await.unwrap();
    assert_eq!(sight.headings, ["You are not logged in"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn shipped_server_serves_usable_pages() {
    if skipped() {
        return;
    }
    let place = Place::shipped().await;
    let mut browser = place.logged_in(Window::WIDE).await;
    let sight = browser.open(&place.connections()).await.unwrap();
    assert!(sight.text.contains("alice@example.com"), "{sight:?}");
    assert_eq!(place.complaints(&sight), [""; 0]);
    browser.click("Log out, Editor").await.unwrap();
    let sight = browser.until(&place.connections()).await.unwrap();
    assert!(sight.text.contains("No connections"), "{sight:?}");
    assert_eq!(place.complaints(&sight), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_reject_framing_by_other_sites() {
    if skipped() {
        return;
    }
    let place = Place::new().await;
    let mut browser = Browser::start(Window::WIDE).await.unwrap();
    let framed = browser.open(&place.framing(&place.redirect)).await.unwrap().framed;
    assert!(framed.concat().contains("Back at the client"), "one that allows it: {framed:?}");
    for page in [place.authorize(), place.connections()] {
        let framed = browser.open(&place.framing(&page)).await.unwrap().framed;
        assert_eq!(framed.len(), 1);
        assert!(!framed.concat().contains("Allow") && !framed.concat().contains("Nobody"));
        let own = browser.open(&page).await.unwrap();
        assert!(own.text.contains("Allow") || own.text.contains("not logged in"), "{own:?}");
    }
}
