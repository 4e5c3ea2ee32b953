//! Redis commands per step, as counted by Redis itself.

use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use vmcp_auth_store::contract::TestEnv;
use vmcp_auth_store::{
    ApplicationType, AuthorizationCodeData, AuthorizationRequest, Ciphertext, Client, ClientAuth,
    ClientId, CodeChallenge, Digest, Grant, GrantId, GrantInsertOutcome, Limits, LockOwner, Login,
    LoginPurpose, PresentedRefreshToken, Profile, ProviderIssuer, ProviderName, RedeemOutcome,
    RefreshTokens, SessionHead, SessionId, Stage, Subject, SubjectName, Timestamp,
    UpstreamTokenRecord, UserId,
};
use vmcp_tests::counterparts::{Redis, skipped};

use crate::fixtures::{standalone, world};

/// A monitor of all commands at a server.
pub(crate) struct Monitor {
    lines: Lines<BufReader<OwnedReadHalf>>,
    _commands: OwnedWriteHalf,
    server: u16,
}

impl Monitor {
    pub(crate) async fn start(server: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
        let (read, mut commands) = stream.into_split();
        commands.write_all(b"MONITOR\r\n").await.unwrap();
        let mut lines = BufReader::new(read).lines();
        assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("+OK"));
        Self { lines, _commands: commands, server }
    }

    /// Returns the commands since the last call, without those that scripts issue.
    pub(crate) async fn commands(&mut self) -> Vec<String> {
        let mut other = TcpStream::connect(("127.0.0.1", self.server)).await.unwrap();
        other.write_all(b"ECHO so-far\r\n").await.unwrap();
        let mut commands = Vec::new();
        loop {
            let line = self.lines.next_line().await.unwrap().unwrap();
            if line.contains("so-far") {
                return commands;
            }
            if !line.contains(" lua]") {
                commands.push(line);
            }
        }
    }
}

fn login(client: &ClientId, session: SessionId) -> Login {
    Login {
        aim: LoginPurpose::Authorize(AuthorizationRequest {
            client: client.clone(),
            redirect_uri: "http://127.0.0.1:5000/".to_owned(),
            state: None,
            challenge: CodeChallenge::of_verifier("verifier"),
            scopes: vec![],
            resource: None,
            nonce: None,
            refresh: true,
            fresh: vmcp_auth_store::ReauthOptions::default(),
        }),
        session,
        browser: Digest::of("cookie"),
        stage: Stage::AwaitConsent { csrf: Digest::of("csrf") },
        user: None,
        profile: Profile::default(),
        authenticated: None,
        created: Timestamp::default(),
        origin: Some(Digest::of("192.0.2.1")),
    }
}

fn client(id: &ClientId) -> Client {
    Client {
        id: id.clone(),
        name: None,
        redirect_uris: vec![],
        auth: ClientAuth::None,
        refresh: true,
        scopes: vec![],
        application_type: ApplicationType::Native,
        software_id: None,
        created: Timestamp::default(),
    }
}

fn seed(head: &SessionHead) -> AuthorizationCodeData {
    AuthorizationCodeData {
        client: head.client.clone(),
        redirect_uri: "http://127.0.0.1:5000/".to_owned(),
        challenge: CodeChallenge::of_verifier("verifier"),
        scopes: vec![],
        resource: None,
        nonce: None,
        refresh: true,
        session: head.id,
        user: head.user.clone(),
        profile: Profile::default(),
        authenticated: Timestamp::default(),
    }
}

fn row(sealed: &Ciphertext, now: Timestamp) -> UpstreamTokenRecord {
    UpstreamTokenRecord {
        version: 0,
        issuer: ProviderIssuer::new("https://github.example").unwrap(),
        sealed: sealed.clone(),
        expires: None,
        scopes: vec![],
        written: now,
    }
}

fn subject((provider, issuer): &(ProviderName, ProviderIssuer)) -> Subject {
    let name = SubjectName::new("1").unwrap();
    Subject { provider: provider.clone(), issuer: issuer.clone(), name }
}

fn grant(head: &SessionHead, now: Timestamp) -> Grant {
    let week = Duration::from_hours(168);
    Grant {
        id: GrantId::from_bytes([1; 16]),
        client: head.client.clone(),
        user: head.user.clone(),
        profile: Profile::default(),
        session: head.id,
        scopes: vec![],
        audience: vec![],
        authenticated: now,
        access_lifespan: Duration::from_hours(1),
        ends: now + week * 4,
        refresh: Some(RefreshTokens {
            idle: week,
            idle_end: now + week,
            generation: 0,
            current: Digest::of("token 0"),
            previous: None,
        }),
    }
}

/// Takes a step and counts its commands. The first use of a script sends its source, so each step is taken twice and the
/// second run counts.
macro_rules! costs {
    ($monitor:ident, $step:expr) => {{
        let _ = $step.await;
        $monitor.commands().await;
        let answer = $step.await.unwrap();
        let commands = $monitor.commands().await;
        assert_eq!(commands.len(), 1, "{}: {commands:?}", stringify!($step));
        answer
    }};
}

#[tokio::test]
async fn each_step_is_one_command() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let TestEnv { store, clock, .. } = world(&standalone(server.port), Limits::default()).await;
    let mut monitor = Monitor::start(server.port).await;
    let (minute, now) = (Duration::from_mins(1), SystemTime::into(clock.now()));
    let id = ClientId::new("client").unwrap();
    let head = SessionHead {
        id: SessionId::from_bytes([1; 16]),
        user: UserId::new("alice").unwrap(),
        client: id.clone(),
    };
    let (github, owner) = (ProviderName::new("github").unwrap(), LockOwner::from_bytes([1; 16]));
    let sealed = Ciphertext::from_bytes(*b"tokens");
    let row = row(&sealed, now);
    let [one, two] = [Digest::of("one"), Digest::of("two")];
    let cookie = Digest::of("cookie");
    let providers = [(github.clone(), row.issuer.clone())];
    let subject = subject(&providers[0]);
    let profile = Profile::default();
    costs!(monitor, store.register(&client(&id)));
    costs!(monitor, store.client(&id));
    costs!(monitor, store.browser(&cookie));
    costs!(monitor, store.put_login(&one, &login(&id, head.id), minute));
    costs!(monitor, store.login(&one));
    costs!(monitor, store.advance_login(&one, &two, &login(&id, head.id), minute));
    costs!(monitor, store.take_login(&two));
    costs!(monitor, store.conflicting_issuers(&providers));
    costs!(monitor, store.upsert_user(&subject, &head.user, &profile));
    costs!(monitor, store.account(&head.user));
    costs!(monitor, store.put_upstream_token(&head, &github, &row, minute));
    costs!(monitor, store.replace_upstream_token(&head.id, &github, 2, &row));
    costs!(monitor, store.lock_upstream_token(&head.id, &github, &owner, minute));
    costs!(monitor, store.unlock_upstream_token(&head.id, &github, &owner));
    costs!(monitor, store.session(&head.id));
    costs!(monitor, store.sessions_of(&head.user));
    costs!(monitor, store.latest_upstream_token(&head.user, &github));
    costs!(monitor, store.extend_session(&head.id, minute));
    costs!(monitor, store.put_browser(&cookie, &head.user, None, minute));
    costs!(monitor, store.put_code(&one, &seed(&head), minute));
    costs!(monitor, store.redeem_code(&one, &id, &CodeChallenge::of_verifier("verifier")));
    costs!(monitor, store.start_grant(&one, &grant(&head, now)));
    costs!(monitor, store.grant(&GrantId::from_bytes([1; 16]), &id));
    let token = PresentedRefreshToken { digest: Digest::of("token 0"), generation: 0 };
    let next = Digest::of("token 1");
    costs!(monitor, store.rotate(&GrantId::from_bytes([1; 16]), &token, &next));
    costs!(monitor, store.remove_upstream_token(&head.id, &github, None));
    costs!(monitor, store.revoke(&GrantId::from_bytes([1; 16])));
    costs!(monitor, store.end_session(&head.id));
    costs!(monitor, store.invalidate_code(&one));
    costs!(monitor, store.remove_browser(&cookie));
    costs!(monitor, store.remove_consents(&head.user, &id));
    costs!(monitor, store.put_registration(&one, &sealed, minute));
    costs!(monitor, store.registration(&one));
    costs!(monitor, store.remove_registration(&one, &sealed));
    costs!(monitor, store.ready());
    costs!(monitor, store.counts());
}

#[tokio::test]
async fn token_needs_two_commands_and_verification_none() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let TestEnv { store, replica, clock } =
        world(&standalone(server.port), Limits::default()).await;
    let mut revocations = replica.revocations().await.unwrap();
    let mut monitor = Monitor::start(server.port).await;
    let now = SystemTime::into(clock.now());
    for round in 0..2 {
        let head = SessionHead {
            id: SessionId::from_bytes([round; 16]),
            user: UserId::new("alice").unwrap(),
            client: ClientId::new("client").unwrap(),
        };
        let minute = Duration::from_mins(1);
        let row = row(&Ciphertext::from_bytes([]), now);
        store
            .put_upstream_token(&head, &ProviderName::new("p").unwrap(), &row, minute)
            .await
            .unwrap();
        let code = Digest::of([round]);
        assert!(store.put_code(&code, &seed(&head), minute).await.unwrap());
        monitor.commands().await;
        let challenge = CodeChallenge::of_verifier("verifier");
        let answer = store.redeem_code(&code, &head.client, &challenge).await.unwrap();
        assert!(matches!(answer.outcome, RedeemOutcome::Redeemed(_)));
        let grant = grant(&head, now);
        assert_eq!(store.start_grant(&code, &grant).await, Ok(GrantInsertOutcome::Inserted));
        // The first run sends the source of each script.
        let redeemed = monitor.commands().await.len();
        assert_eq!(redeemed, if round == 0 { 4 } else { 2 });
        let revocation = store.end_session(&head.id).await.unwrap().unwrap();
        monitor.commands().await;
        // Revocations arrive as messages, without a request.
        assert_eq!(revocations.next().await, Some(revocation));
        assert_eq!(monitor.commands().await, [""; 0]);
    }
}
