//! Logins with a userinfo endpoint.

use http::Method as HttpMethod;
use serde_json::json;

use crate::testing::*;
use crate::*;

fn info() -> UserInfo {
    UserInfo::new(endpoint("https://id.example/me"))
}

fn oauth2_with(info: UserInfo) -> Settings {
    plain(Oauth2 { user_info: Some(info), ..oauth2(Client::Static(fixed())) })
}

fn oidc_with(info: Option<UserInfo>, scopes: &[&str]) -> Settings {
    let oidc = Oidc { issuer: Issuer::new(ISSUER).unwrap(), client: fixed(), user_info: info };
    Settings { scopes: Scopes::new(scopes).unwrap(), ..settings(Kind::Oidc(Box::new(oidc))) }
}

async fn login(fake: &FakeProvider, settings: Settings) -> Result<Login, ProviderError> {
    fake.login(&fake.provider(settings, &clock())).await
}

#[tokio::test(start_paused = true)]
async fn userinfo_request_follows_configuration() {
    let fake = FakeProvider::new();
    fake.state().user = json!({"id": 583_231, "login": "octocat", "mail": "o@example.com"});
    let info = UserInfo {
        method: Method::Post,
        headers: Headers::new([("X-Api-Version", "2022"), ("Accept", "application/vnd.x+json")])
            .unwrap(),
        fields: FieldMapping::new(vec!["node", "id"], vec!["login"], vec!["mail"]).unwrap(),
        ..info()
    };
    let login = login(&fake, oauth2_with(info)).await.unwrap();
    assert_eq!((&*login.subject, login.is_synthetic), ("#583231", false));
    assert_eq!(login.name.as_deref(), Some("octocat"));
    assert_eq!(login.email.as_deref(), Some("o@example.com"));
    let asked = &fake.asked("/me")[0];
    assert_eq!(asked.method, HttpMethod::POST);
    assert_eq!(asked.headers["authorization"], "Bearer at-1");
    assert!(asked.headers["authorization"].is_sensitive());
    assert_eq!(asked.headers["x-api-version"], "2022");
    assert_eq!(asked.headers["accept"], "application/vnd.x+json");
    assert!(!asked.supplied);
}

#[tokio::test(start_paused = true)]
async fn rejects_userinfo_without_subject() {
    let fake = FakeProvider::new();
    for user in [json!({}), json!({"sub": ""}), json!({"sub": 1.5}), json!({"sub": {"id": "a"}})] {
        fake.state().user = user.clone();
        let error = login(&fake, oauth2_with(info())).await.unwrap_err();
        assert_eq!(error, IdentityError::MissingSubject.into(), "{user}");
    }
    for (status, kind, body, expected) in [
        (200, "text/html", "<h1>".to_owned(), EndpointError::NotJson),
        (200, "application/jwt", "a.b.c".to_owned(), EndpointError::NotJson),
        (200, "application/json", r#"{"sub":"a","sub":"b"}"#.to_owned(), EndpointError::Malformed),
        (200, "application/json", " ".repeat(1024 * 1024 + 1), EndpointError::TooLarge),
        (302, "text/html", String::new(), EndpointError::Redirected),
        (401, "text/html", String::new(), EndpointError::Status(401)),
        (500, "application/json", "{}".to_owned(), EndpointError::Status(500)),
    ] {
        fake.odd("/me", status, kind, &body);
        let error = login(&fake, oauth2_with(info())).await.unwrap_err();
        assert_eq!(
            error,
            ProviderError::Unavailable { endpoint: EndpointKind::UserInfo, cause: expected }
        );
    }
}

#[tokio::test(start_paused = true)]
async fn userinfo_override_must_match_id_token() {
    let fake = FakeProvider::new();
    let with = |fields: FieldMapping| oidc_with(Some(UserInfo { fields, ..info() }), &["openid"]);
    let login_with = |fields| login(&fake, with(fields));
    let ok = login_with(FieldMapping::default()).await.unwrap();
    assert_eq!((&*ok.subject, ok.name.as_deref()), ("alice", Some("Alice")));
    fake.state().user = json!({"sub": "mallory", "name": "Mallory"});
    let error = login_with(FieldMapping::default()).await.unwrap_err();
    assert_eq!(error, IdentityError::OtherUser.into());
    assert_eq!(error.fault_party(), FaultParty::Browser);
    let renamed = || FieldMapping::new(vec!["oid"], vec!["nick"], vec!["mail"]).unwrap();
    fake.state().user = json!({"sub": "mallory", "oid": "7"});
    assert_eq!(login_with(renamed()).await.unwrap_err(), IdentityError::OtherUser.into());
    fake.state().user = json!({"oid": "7", "nick": "Al"});
    let ok = login_with(renamed()).await.unwrap();
    assert_eq!((&*ok.subject, ok.name.as_deref()), ("7", Some("Al")));
    // A refresh still compares with the ID token of the login.
    let provider = fake.provider(with(renamed()), &clock());
    assert!(provider.refresh(&ok.tokens).await.is_ok());
    fake.state().claims = json!({"sub": "mallory"});
    let error = provider.refresh(&ok.tokens).await.unwrap_err();
    assert_eq!(error, RefreshError::SubjectChanged);
    fake.state().claims = json!({});
    fake.odd("/me", 503, "text/html", "");
    let down = login_with(FieldMapping::default()).await.unwrap_err();
    assert_eq!(
        down,
        ProviderError::Unavailable {
            endpoint: EndpointKind::UserInfo,
            cause: EndpointError::Status(503)
        }
    );
}

#[tokio::test(start_paused = true)]
async fn discovered_userinfo_completes_the_id_token() {
    let fake = FakeProvider::new();
    let quiet = oidc_with(None, &["openid"]);
    let login_quiet = login(&fake, quiet).await.unwrap();
    assert_eq!((login_quiet.name, fake.asked("/me").len()), (None, 0));
    let asks = || oidc_with(None, &["openid", "profile", "email"]);
    let full = login(&fake, asks()).await.unwrap();
    assert_eq!(
        (full.name.as_deref(), full.email.as_deref()),
        (Some("Alice"), Some("alice@example.com"))
    );
    fake.state().user = json!({"sub": "mallory", "email": "m@example.com"});
    assert_eq!(login(&fake, asks()).await.unwrap_err(), IdentityError::OtherUser.into());
    fake.odd("/me", 401, "text/html", "");
    let without = login(&fake, asks()).await.unwrap();
    assert_eq!((&*without.subject, without.email), ("alice", None));
}
