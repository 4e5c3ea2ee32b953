//! Failure of a server during a login and a refresh: every flow can still be completed.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep, timeout};
use vmcp_auth_store::contract::TestEnv;
use vmcp_auth_store::{
    AuthorizationCodeData, Ciphertext, ClientId, CodeChallenge, Digest, Grant, GrantId,
    GrantInsertOutcome, Limits, PresentedRefreshToken, Profile, ProviderIssuer, ProviderName,
    RedeemOutcome, RefreshTokens, RotationOutcome, SessionHead, SessionId, Store, StoreError,
    Timestamp, UpstreamTokenRecord, UserId,
};
use vmcp_core::Clock;
use vmcp_redis::{
    Address, Credentials, Error, Idempotency, Node, Redis as Client, Sentinel, Settings, Timeouts,
    Tls, cmd,
};
use vmcp_tests::counterparts::{Certificates, Redis, RedisCluster, RedisSentinels, skipped};

use crate::fixtures::{TIMEOUTS, standalone, world};

/// Timeout for the election of a new master.
const FAILOVER: Duration = Duration::from_mins(1);

const WEEK: Duration = Duration::from_hours(168);

fn head() -> SessionHead {
    SessionHead {
        id: SessionId::from_bytes([1; 16]),
        user: UserId::new("alice").unwrap(),
        client: ClientId::new("client").unwrap(),
    }
}

fn grant(clock: &Clock) -> Grant {
    let (head, now): (_, Timestamp) = (head(), SystemTime::into(clock.now()));
    Grant {
        id: GrantId::from_bytes([1; 16]),
        client: head.client,
        user: head.user,
        profile: Profile::default(),
        session: head.id,
        scopes: vec![],
        audience: vec![],
        authenticated: now,
        access_lifespan: Duration::from_hours(1),
        ends: now + WEEK * 4,
        refresh: Some(RefreshTokens {
            idle: WEEK,
            idle_end: now + WEEK,
            generation: 0,
            current: Digest::of("token 0"),
            previous: None,
        }),
    }
}

/// Performs a login up to its code.
async fn login(store: &dyn Store, clock: &Clock) -> Digest {
    let (head, now) = (head(), SystemTime::into(clock.now()));
    let sealed = Ciphertext::from_bytes(*b"tokens");
    let issuer = ProviderIssuer::new("https://github.example").unwrap();
    let row = UpstreamTokenRecord {
        version: 0,
        issuer,
        sealed,
        expires: None,
        scopes: vec![],
        written: now,
    };
    store
        .put_upstream_token(&head, &ProviderName::new("github").unwrap(), &row, WEEK)
        .await
        .unwrap();
    let seed = AuthorizationCodeData {
        client: head.client,
        redirect_uri: "http://127.0.0.1:5000/".to_owned(),
        challenge: CodeChallenge::of_verifier("verifier"),
        scopes: vec![],
        resource: None,
        nonce: None,
        refresh: true,
        session: head.id,
        user: head.user,
        profile: Profile::default(),
        authenticated: now,
    };
    let code = Digest::of("code");
    assert!(store.put_code(&code, &seed, WEEK).await.unwrap());
    code
}

async fn redeem(store: &dyn Store, code: &Digest, clock: &Clock) {
    let challenge = CodeChallenge::of_verifier("verifier");
    let taken =
        until(async || store.redeem_code(code, &head().client, &challenge).await).await.outcome;
    assert!(matches!(taken, RedeemOutcome::Redeemed(_)), "{taken:?}");
    let started = until(async || store.start_grant(code, &grant(clock)).await).await;
    assert_eq!(started, GrantInsertOutcome::Inserted);
}

async fn refresh(store: &dyn Store, generation: u32) -> RotationOutcome {
    let digest = Digest::of(format!("token {generation}"));
    let next = Digest::of(format!("token {}", generation + 1));
    let presented = PresentedRefreshToken { digest, generation };
    until(async || store.rotate(&GrantId::from_bytes([1; 16]), &presented, &next).await).await
}

/// Retries a step as a client does on a retryable error.
async fn until<T, F: Future<Output = Result<T, StoreError>>>(step: impl Fn() -> F) -> T {
    let deadline = Instant::now() + FAILOVER;
    loop {
        match step().await {
            Ok(answer) => return answer,
            Err(StoreError::Unavailable) if Instant::now() < deadline => {}
            Err(error) => panic!("{error}"),
        }
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn login_and_refresh_survive_sentinel_failover() {
    if skipped() {
        return;
    }
    let tls = Certificates::new(&[]).unwrap();
    let sentinel_tls = Certificates::new(&[&tls]).unwrap();
    let mut group = RedisSentinels::start(Some(&tls), Some(&sentinel_tls)).await.unwrap();
    let trusting = |tls: &Certificates| Some(Tls::with_ca(&tls.pem().unwrap()).unwrap());
    let nodes = group.sentinels.iter().map(|sentinel| Node::new("localhost", sentinel.port));
    let address = Address::Sentinel(Sentinel {
        master: "mymaster".to_owned(),
        database: 3,
        nodes: nodes.collect(),
        tls: trusting(&sentinel_tls),
    });
    let timeouts = Timeouts { dial: Duration::from_secs(1), ..TIMEOUTS };
    let settings = Settings { address, tls: trusting(&tls), timeouts, ..standalone(0) };
    let TestEnv { store, replica, clock } = world(&settings, Limits::default()).await;
    let mut revocations = replica.revocations().await.unwrap();
    let code = login(&*store, &clock).await;
    let [master, successor] = &mut group.servers;
    until_replicated(&settings, &store).await;
    // One Sentinel dies as well; two are a majority.
    group.sentinels[0].kill().unwrap();
    master.kill().unwrap();
    let begun = Instant::now();
    redeem(&*store, &code, &clock).await;
    eprintln!("a new master was used after {:?}", begun.elapsed());
    assert!(matches!(refresh(&*store, 0).await, RotationOutcome::Rotated(_)));
    assert!(matches!(refresh(&*replica, 1).await, RotationOutcome::Rotated(_)));
    let role = tls.cli(&["ROLE"]);
    assert!(successor.cli(&role).await.unwrap().starts_with("master"));
    // Subscribers keep their subscription.
    until(async || store.end_session(&head().id).await).await;
    let heard = timeout(FAILOVER, revocations.next()).await.unwrap().unwrap();
    assert_eq!(heard.session, head().id);
}

#[tokio::test]
async fn error_names_unknown_sentinel_master() {
    if skipped() {
        return;
    }
    let group = RedisSentinels::start(None, None).await.unwrap();
    let address = |master: &str, port| {
        let nodes = vec![Node::new("127.0.0.1", port)];
        Address::Sentinel(Sentinel { master: master.to_owned(), database: 0, nodes, tls: None })
    };
    let port = group.sentinels[1].port;
    let right = Settings { address: address("mymaster", port), ..standalone(0) };
    Client::connect(right).await.unwrap();
    // A server that does not respond delays no request.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nodes =
        [silent.local_addr().unwrap().port(), port].map(|port| Node::new("127.0.0.1", port));
    let master = "mymaster".to_owned();
    let some = Sentinel { master, database: 0, nodes: nodes.to_vec(), tls: None };
    let timeouts = Timeouts { dial: Duration::from_mins(1), ..TIMEOUTS };
    let some = Settings { address: Address::Sentinel(some), timeouts, ..standalone(0) };
    timeout(Duration::from_secs(30), Client::connect(some)).await.unwrap().unwrap();
    let wrong = Settings { address: address("other", port), ..standalone(0) };
    let refused = Client::connect(wrong).await.unwrap_err().to_string();
    assert!(refused.contains(r#"monitors no master named "other""#), "{refused}");
    let wrong = Settings { address: address("mymaster", group.servers[0].port), ..standalone(0) };
    let refused = Client::connect(wrong).await.unwrap_err().to_string();
    assert!(refused.contains("rejected a command"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn login_and_refresh_survive_cluster_node_failure() {
    if skipped() {
        return;
    }
    let tls = Certificates::new(&[]).unwrap();
    let mut cluster = RedisCluster::start(Some(&tls)).await.unwrap();
    let address = Address::Cluster(vec![Node::new("127.0.0.1", cluster.nodes[0].port)]);
    let timeouts = Timeouts { dial: Duration::from_secs(1), ..TIMEOUTS };
    let trusted = Some(Tls::with_ca(&tls.pem().unwrap()).unwrap());
    let settings = Settings { address, tls: trusted, timeouts, ..standalone(0) };
    let TestEnv { store, replica, clock } = world(&settings, Limits::default()).await;
    let mut revocations = replica.revocations().await.unwrap();
    let code = login(&*store, &clock).await;
    let serving = serving(&cluster, &tls, prefix(&store)).await;
    until_replicated(&settings, &store).await;
    cluster.nodes[serving].kill().unwrap();
    let begun = Instant::now();
    redeem(&*store, &code, &clock).await;
    eprintln!("another node was used after {:?}", begun.elapsed());
    assert!(matches!(refresh(&*store, 0).await, RotationOutcome::Rotated(_)));
    assert!(matches!(refresh(&*replica, 1).await, RotationOutcome::Rotated(_)));
    until(async || store.end_session(&head().id).await).await;
    let heard = timeout(FAILOVER, revocations.next()).await.unwrap().unwrap();
    assert_eq!(heard.session, head().id);
}

/// Returns the key prefix of a store.
fn prefix(store: &Arc<dyn Store>) -> String {
    format!("{store:?}").split('"').nth(1).unwrap().to_owned()
}

/// Waits until a replica has all previous writes, proven by a later write on another connection.
async fn until_replicated(settings: &Settings, store: &Arc<dyn Store>) {
    let (redis, key) = (Client::connect(settings.clone()).await.unwrap(), prefix(store));
    let mut write = cmd("SET");
    write.arg(format!("{key}written")).arg("");
    redis.call(&key, &write, Idempotency::Idempotent).await.unwrap();
    let mut wait = cmd("WAIT");
    wait.arg(1).arg(2000);
    let replicas = redis.call(&key, &wait, Idempotency::Idempotent).await.unwrap();
    assert_eq!(replicas, vmcp_redis::Value::Int(1));
}

/// Returns the index of the node that serves keys with this prefix.
async fn serving(cluster: &RedisCluster, tls: &Certificates, prefix: String) -> usize {
    for (number, node) in cluster.nodes.iter().enumerate() {
        let question = tls.cli(&["GET", &prefix]);
        // A replica reports the address of its master.
        if !node.cli(&question).await.unwrap().contains("MOVED") {
            return number;
        }
    }
    panic!("nobody serves {prefix}");
}

#[tokio::test]
async fn follows_moving_slot_and_delays_scripts() {
    if skipped() {
        return;
    }
    let cluster = RedisCluster::start(None).await.unwrap();
    let node = Node::new("127.0.0.1", cluster.nodes[0].port);
    let settings = Settings { address: Address::Cluster(vec![node]), ..standalone(0) };
    let redis = Client::connect(settings).await.unwrap();
    let set = |key: &str| {
        let mut command = cmd("SET");
        command.arg(key).arg("value");
        command
    };
    redis.call("{foo}1", &set("{foo}1"), Idempotency::Idempotent).await.unwrap();
    // "foo" is in slot 12182, initially on the third of three nodes.
    let (from, to) = (&cluster.nodes[2], &cluster.nodes[0]);
    let names = [
        from.cli(&["CLUSTER", "MYID"]).await.unwrap(),
        to.cli(&["CLUSTER", "MYID"]).await.unwrap(),
    ];
    let [old, new] = names.each_ref().map(|name| name.trim());
    to.cli(&["CLUSTER", "SETSLOT", "12182", "IMPORTING", old]).await.unwrap();
    from.cli(&["CLUSTER", "SETSLOT", "12182", "MIGRATING", new]).await.unwrap();
    // A moved key is requested from its new node.
    redis.call("{foo}2", &set("{foo}2"), Idempotency::Idempotent).await.unwrap();
    assert_eq!(to.cli(&["CLUSTER", "COUNTKEYSINSLOT", "12182"]).await.unwrap().trim(), "1");
    // A script could find its keys on different nodes.
    let script = vmcp_redis::Script::new("return redis.call('GET', '{foo}1')");
    let arguments = Vec::<String>::new();
    let running =
        async { redis.run(&script, "{foo}", &arguments, Idempotency::NotIdempotent).await };
    let moving = async {
        sleep(Duration::from_millis(500)).await;
        let port = to.port.to_string();
        from.cli(&["MIGRATE", "127.0.0.1", &port, "{foo}1", "0", "1000"]).await.unwrap();
        for node in [to, from] {
            node.cli(&["CLUSTER", "SETSLOT", "12182", "NODE", new]).await.unwrap();
        }
    };
    let (answer, ()) = futures_util::join!(running, moving);
    let answer: String = vmcp_redis::from_redis_value(answer.unwrap()).unwrap();
    assert_eq!(answer, "value");
}

#[tokio::test]
async fn error_names_server_outside_cluster() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let address = Address::Cluster(vec![Node::new("127.0.0.1", server.port)]);
    let refused = Client::connect(Settings { address, ..standalone(0) }).await.unwrap_err();
    assert!(refused.to_string().contains("not in cluster mode"), "{refused}");
}

#[tokio::test]
async fn authenticates_at_sentinel_with_password() {
    if skipped() {
        return;
    }
    let group = RedisSentinels::start(None, None).await.unwrap();
    let sentinel = &group.sentinels[0];
    sentinel.cli(&["ACL", "SETUSER", "default", "resetpass", ">canary"]).await.unwrap();
    group.servers[0].cli(&["CONFIG", "SET", "requirepass", "canary"]).await.unwrap();
    let nodes = vec![Node::new("127.0.0.1", sentinel.port)];
    let watched = Sentinel { master: "mymaster".to_owned(), database: 0, nodes, tls: None };
    let with = |password: Option<&str>| Settings {
        address: Address::Sentinel(watched.clone()),
        credentials: Credentials {
            user: None,
            password: password.map(|text| text.to_owned().into()),
        },
        ..standalone(0)
    };
    Client::connect(with(Some("canary"))).await.unwrap();
    for password in [None, Some("wrong")] {
        let refused = Client::connect(with(password)).await.unwrap_err();
        let named = Node::new("127.0.0.1", sentinel.port);
        assert_eq!(refused, Error::InvalidCredentials { node: named });
    }
}

#[tokio::test]
async fn cluster_user_may_query_slots() {
    if skipped() {
        return;
    }
    let cluster = RedisCluster::start(None).await.unwrap();
    let documented =
        "+@hash +@sortedset +@scripting +@pubsub +@connection +del +pexpire +pttl +cluster|slots";
    for node in &cluster.nodes {
        let mut user = vec!["ACL", "SETUSER", "vmcp", "on", ">secret", "~vmcp:auth:*"];
        user.extend(["&vmcp:auth:*", "-@all"]);
        user.extend(documented.split(' '));
        node.cli(&user).await.unwrap();
        node.cli(&["ACL", "SETUSER", "other", "on", ">secret", "~*", "+@all", "-cluster"])
            .await
            .unwrap();
    }
    let as_user = |user: &str| Settings {
        address: Address::Cluster(vec![Node::new("127.0.0.1", cluster.nodes[0].port)]),
        credentials: Credentials {
            user: Some(user.to_owned().into()),
            password: Some("secret".to_owned().into()),
        },
        ..standalone(0)
    };
    let TestEnv { store, clock, .. } = world(&as_user("vmcp"), Limits::default()).await;
    login(&*store, &clock).await;
    let denied = Client::connect(as_user("other")).await.unwrap_err();
    assert!(matches!(denied, Error::PermissionDenied { .. }), "{denied}");
}

/// Proxies a store's connection to Redis, and drops the first response after `cut` is set.
pub(crate) async fn lossy(server: u16, cut: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let cut = Arc::clone(&cut);
            tokio::spawn(async move {
                let mut far = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                let (mut from_near, mut to_near) = near.split();
                let (mut from_far, mut to_far) = far.split();
                let back = async {
                    let mut buffer = [0; 4096];
                    loop {
                        let length = from_far.read(&mut buffer).await.unwrap_or_default();
                        if length == 0 || cut.swap(false, Ordering::SeqCst) {
                            return;
                        }
                        to_near.write_all(&buffer[..length]).await.unwrap();
                    }
                };
                tokio::select! {
                    () = back => {}
                    _ = copy(&mut from_near, &mut to_far) => {}
                }
            });
        }
    });
    port
}

#[tokio::test]
async fn lost_responses_do_not_duplicate_token_steps() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let cut = Arc::new(AtomicBool::new(false));
    let port = lossy(server.port, Arc::clone(&cut)).await;
    let TestEnv { store, clock, .. } = world(&standalone(port), Limits::default()).await;
    let code = login(&*store, &clock).await;
    let challenge = CodeChallenge::of_verifier("verifier");
    // A script is sent in full once; otherwise that response would be the dropped one.
    for _ in 0..2 {
        store.redeem_code(&Digest::of("none"), &head().client, &challenge).await.unwrap();
        store.start_grant(&Digest::of("none"), &grant(&clock)).await.unwrap();
        assert_eq!(refresh(&*store, 0).await, RotationOutcome::NotFound);
    }
    // Redeeming a code is not idempotent: the retry gets the rejection of an unknown code.
    cut.store(true, Ordering::SeqCst);
    let lost = store.redeem_code(&code, &head().client, &challenge).await.unwrap_err();
    assert_eq!(lost, StoreError::Unavailable);
    let again = store.redeem_code(&code, &head().client, &challenge).await.unwrap();
    assert_eq!(again.outcome, RedeemOutcome::InProgress);
    // The other steps of a token are retried with the same result.
    cut.store(true, Ordering::SeqCst);
    assert_eq!(store.start_grant(&code, &grant(&clock)).await, Ok(GrantInsertOutcome::Inserted));
    cut.store(true, Ordering::SeqCst);
    let RotationOutcome::Repeated(rotated) = refresh(&*store, 0).await else { panic!() };
    assert_eq!(rotated.refresh.unwrap().current, Digest::of("token 1"));
    assert!(matches!(refresh(&*store, 1).await, RotationOutcome::Rotated(_)));
}
