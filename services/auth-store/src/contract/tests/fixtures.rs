//! Records that the tests store.

use std::time::{Duration, SystemTime};

use vmcp_core::Clock;

use crate::{
    ApplicationType, AuthorizationCodeData, AuthorizationRequest, Ciphertext, Client, ClientAuth,
    ClientId, CodeChallenge, Digest, Grant, GrantId, GrantInsertOutcome, Login, LoginPurpose,
    PresentedRefreshToken, Profile, ProviderIssuer, ProviderName, ReauthOptions, RedeemOutcome,
    RefreshTokens, SessionHead, SessionId, Stage, Store, Timestamp, UpstreamTokenRecord, UserId,
};

pub(super) const MINUTE: Duration = Duration::from_mins(1);
pub(super) const HOUR: Duration = Duration::from_hours(1);
pub(super) const DAY: Duration = Duration::from_hours(24);

/// Current time of a test's clock.
#[must_use]
pub(super) fn now(clock: &Clock) -> Timestamp {
    SystemTime::into(clock.now())
}

pub(super) fn digest(text: &str) -> Digest {
    Digest::of(text)
}

pub(super) fn session(number: u8) -> SessionId {
    SessionId::from_bytes([number; 16])
}

pub(super) fn grant_id(number: u8) -> GrantId {
    GrantId::from_bytes([number; 16])
}

pub(super) fn client_id(name: &str) -> ClientId {
    ClientId::new(name).unwrap()
}

pub(super) fn user(name: &str) -> UserId {
    UserId::new(name).unwrap()
}

pub(super) fn provider(name: &str) -> ProviderName {
    ProviderName::new(name).unwrap()
}

pub(super) fn issuer(name: &str) -> ProviderIssuer {
    ProviderIssuer::new(format!("https://{name}.example")).unwrap()
}

pub(super) fn client(name: &str) -> Client {
    Client {
        id: client_id(name),
        name: Some("A \"client\" {of} ours".to_owned()),
        redirect_uris: vec!["http://127.0.0.1/callback".to_owned()],
        auth: ClientAuth::ClientSecretBasic(digest("secret")),
        refresh: true,
        scopes: vec!["openid".to_owned()],
        application_type: ApplicationType::Native,
        software_id: None,
        created: Timestamp::from_millis(1),
    }
}

pub(super) fn login(client: &str) -> Login {
    Login {
        aim: LoginPurpose::Authorize(AuthorizationRequest {
            client: client_id(client),
            redirect_uri: "http://127.0.0.1:5000/callback".to_owned(),
            state: Some("state".to_owned()),
            challenge: CodeChallenge::of_verifier("verifier"),
            scopes: vec![],
            resource: Some("https://mcp.example/mcp".to_owned()),
            nonce: None,
            refresh: true,
            fresh: ReauthOptions { login: true, select_account: false, max_age: Some(60) },
        }),
        session: session(1),
        browser: digest("cookie"),
        stage: Stage::AwaitUpstream {
            provider: provider("github"),
            leg: Ciphertext::from_bytes([0, 1, 255]),
        },
        user: None,
        profile: Profile::default(),
        authenticated: Some(Timestamp::from_millis(2)),
        created: Timestamp::from_millis(1),
        origin: Some(digest("192.0.2.1")),
    }
}

/// Returns a login that started at an address.
pub(super) fn login_at(origin: &str, client: &str) -> Login {
    Login { origin: Some(digest(origin)), ..login(client) }
}

pub(super) fn head(number: u8, person: &str) -> SessionHead {
    SessionHead { id: session(number), user: user(person), client: client_id("client") }
}

pub(super) fn row(text: &str, clock: &Clock) -> UpstreamTokenRecord {
    UpstreamTokenRecord {
        version: 0,
        issuer: issuer("github"),
        sealed: Ciphertext::from_bytes(text.as_bytes()),
        expires: Some(now(clock) + HOUR),
        scopes: vec!["repo".to_owned()],
        written: now(clock),
    }
}

pub(super) fn seed(number: u8) -> AuthorizationCodeData {
    AuthorizationCodeData {
        client: client_id("client"),
        redirect_uri: "http://127.0.0.1:5000/callback".to_owned(),
        challenge: CodeChallenge::of_verifier("verifier"),
        scopes: vec!["openid".to_owned(), "offline_access".to_owned()],
        resource: None,
        nonce: None,
        refresh: true,
        session: session(number),
        user: user("alice"),
        profile: Profile { name: Some("Alice".to_owned()), ..Profile::default() },
        authenticated: Timestamp::from_millis(1),
    }
}

/// Returns a grant of 30 days whose tokens expire after a week without use.
pub(super) fn grant(number: u8, clock: &Clock) -> Grant {
    Grant {
        id: grant_id(number),
        client: client_id("client"),
        user: user("alice"),
        profile: Profile { name: Some("Alice".to_owned()), ..Profile::default() },
        session: session(number),
        scopes: vec!["openid".to_owned()],
        audience: vec!["https://mcp.example/mcp".to_owned()],
        authenticated: Timestamp::from_millis(1),
        access_lifespan: HOUR,
        ends: now(clock) + DAY * 30,
        refresh: Some(RefreshTokens {
            idle: DAY * 7,
            idle_end: now(clock) + DAY * 7,
            generation: 0,
            current: digest("token 0"),
            previous: None,
        }),
    }
}

pub(super) fn verifier(text: &str) -> CodeChallenge {
    CodeChallenge::of_verifier(text)
}

/// Stores a session with one upstream token, for ten minutes.
pub(super) async fn insert_session(store: &dyn Store, number: u8, clock: &Clock) {
    let row = row("tokens", clock);
    store
        .put_upstream_token(&head(number, "alice"), &provider("github"), &row, MINUTE * 10)
        .await
        .unwrap();
}

/// Stores a session and its code.
pub(super) async fn insert_code(store: &dyn Store, number: u8, clock: &Clock) -> Digest {
    insert_session(store, number, clock).await;
    let code = digest(&format!("code {number}"));
    assert!(store.put_code(&code, &seed(number), MINUTE * 10).await.unwrap());
    code
}

/// Stores a code of this client.
pub(super) async fn insert_code_of(
    store: &dyn Store,
    number: u8,
    (client, clock): (&str, &Clock),
) -> Digest {
    insert_session(store, number, clock).await;
    let code = digest(&format!("code {number}"));
    let seed = AuthorizationCodeData { client: client_id(client), ..seed(number) };
    assert!(store.put_code(&code, &seed, MINUTE * 10).await.unwrap());
    code
}

/// Stores a client that has redeemed a code.
pub(super) async fn insert_known_client(
    store: &dyn Store,
    number: u8,
    (name, clock): (&str, &Clock),
) {
    store.register(&client(name)).await.unwrap();
    let code = insert_code_of(store, number, (name, clock)).await;
    let answer = store.redeem_code(&code, &client_id(name), &verifier("verifier")).await.unwrap();
    assert_eq!(answer.client, Some(client(name)));
    assert!(matches!(answer.outcome, RedeemOutcome::Redeemed(_)), "{answer:?}");
}

/// Stores a session and the grant of its code.
pub(super) async fn insert_grant(store: &dyn Store, number: u8, clock: &Clock) -> Grant {
    let code = insert_code(store, number, clock).await;
    let answer =
        store.redeem_code(&code, &client_id("client"), &verifier("verifier")).await.unwrap();
    assert_eq!(answer.outcome, RedeemOutcome::Redeemed(Box::new(seed(number))));
    let grant = grant(number, clock);
    assert_eq!(store.start_grant(&code, &grant).await.unwrap(), GrantInsertOutcome::Inserted);
    grant
}

/// Returns the refresh token of a generation.
pub(super) fn token(generation: u32) -> PresentedRefreshToken {
    PresentedRefreshToken { digest: digest(&format!("token {generation}")), generation }
}

/// Runs a task concurrently and returns all results.
pub(super) async fn run_concurrently<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    many: usize,
    task: impl Fn(usize) -> F,
) -> Vec<T> {
    let tasks: Vec<_> = (0..many).map(|number| tokio::spawn(task(number))).collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}
