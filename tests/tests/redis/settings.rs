//! Connection settings (user, TLS, timeouts): an invalid setting is reported at startup.

use std::sync::Arc;
use std::time::Duration;

use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio::time::Instant;
use vmcp_auth_redis::{RedisStore, StartError};
use vmcp_auth_store::contract::TestEnv;
use vmcp_auth_store::{Digest, Limits, Store, StoreError};
use vmcp_redis::{Credentials, Error, Idempotency, Redis as Client, Settings, Timeouts, Tls, cmd};
use vmcp_tests::counterparts::{Certificates, Redis, skipped};

use crate::fixtures::{TIMEOUTS, clock, namespace, standalone, world};

fn secret(text: &str) -> SecretString {
    text.to_owned().into()
}

/// Returns settings with a user and a password.
fn as_user(port: u16, user: Option<&str>, password: &str) -> Settings {
    let user = user.map(secret);
    Settings {
        credentials: Credentials { user, password: Some(secret(password)) },
        ..standalone(port)
    }
}

async fn start(settings: Settings) -> Result<RedisStore, StartError> {
    let redis = Client::connect(settings).await?;
    RedisStore::start(redis, &namespace(), Limits::default(), clock()).await
}

async fn works(settings: &Settings) {
    let TestEnv { store, .. } = world(settings, Limits::default()).await;
    assert_eq!(store.take_login(&Digest::of("state")).await, Ok(None));
}

#[tokio::test]
async fn accepts_password_alone_and_reports_wrong_password() {
    if skipped() {
        return;
    }
    let server = Redis::start(&["--requirepass", "canary-right"]).await.unwrap();
    works(&as_user(server.port, None, "canary-right")).await;
    for settings in [as_user(server.port, None, "canary-wrong"), standalone(server.port)] {
        let refused = start(settings).await.unwrap_err();
        assert!(
            matches!(refused, StartError::Redis(Error::InvalidCredentials { .. })),
            "{refused}"
        );
        let said = format!("{refused} {refused:?}");
        assert!(
            said.contains("rejected the user or password") && !said.contains("canary"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn documented_permissions_suffice_and_denied_command_is_named() {
    if skipped() {
        return;
    }
    let documented = "+@hash +@sortedset +@scripting +@pubsub +@connection +del +pexpire +pttl";
    let user = |name: &str, keys: &str, rules: &str| {
        format!("user {name} on >secret {keys} &vmcp:auth:* -@all {rules}")
    };
    let users = [
        user("good", "~vmcp:auth:*", documented),
        user("elsewhere", "~other:*", documented),
        user("unscripted", "~vmcp:auth:*", "+@hash +@connection"),
        user("short", "~vmcp:auth:*", &format!("{documented} -hincrby")),
        user("deaf", "~vmcp:auth:*", &format!("{documented} -subscribe")),
    ];
    let server = Redis::start(&[]).await.unwrap();
    for user in &users {
        let words: Vec<_> = user.split(' ').skip(1).collect();
        server.cli(&[&["ACL", "SETUSER"], &words[..]].concat()).await.unwrap();
    }
    works(&as_user(server.port, Some("good"), "secret")).await;
    for (user, named) in [
        ("elsewhere", "key"),
        ("unscripted", "evalsha"),
        ("short", "HINCRBY"),
        ("deaf", "subscribe"),
    ] {
        let refused = start(as_user(server.port, Some(user), "secret")).await.unwrap_err();
        let said = refused.to_string();
        assert!(said.contains(named), "{user}: {said}");
        assert!(!said.contains("secret"), "{said}");
    }
}

#[tokio::test]
async fn tls_trusts_given_ca_or_skips_verification() {
    if skipped() {
        return;
    }
    let (tls, other) = (Certificates::new(&[]).unwrap(), Certificates::new(&[]).unwrap());
    let arguments = tls.arguments();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let server = Redis::start(&arguments).await.unwrap();
    let over = |tls| Settings { tls, ..standalone(server.port) };
    works(&over(Some(Tls::with_ca(&tls.pem().unwrap()).unwrap()))).await;
    works(&over(Some(Tls::insecure_skip_verify().unwrap()))).await;
    let wrong = Tls::with_ca(&other.pem().unwrap()).unwrap();
    let refused = Client::connect(over(Some(wrong))).await.unwrap_err();
    assert!(matches!(refused, Error::Tls { .. }), "{refused}");
    // Plain text to a TLS port.
    let refused = Client::connect(over(None)).await.unwrap_err();
    assert!(refused.is_temporary(), "{refused}");
}

#[tokio::test]
async fn connection_attempts_end_at_dial_timeout() {
    // The server accepts connections and sends nothing.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let timeouts = Timeouts { dial: Duration::from_millis(300), ..TIMEOUTS };
    let settings = Settings {
        credentials: Credentials { user: None, password: Some(secret("password")) },
        timeouts,
        ..standalone(silent.local_addr().unwrap().port())
    };
    let begun = Instant::now();
    let refused = Client::connect(settings).await.unwrap_err();
    assert!(matches!(refused, Error::Timeout { .. }), "{refused}");
    assert!(begun.elapsed() < Duration::from_secs(3));
}

#[tokio::test]
async fn responses_time_out_at_read_timeout() {
    if skipped() {
        return;
    }
    let server = Redis::start(&["--enable-debug-command", "yes"]).await.unwrap();
    let timeouts = Timeouts { read: Duration::from_millis(200), ..TIMEOUTS };
    let redis = Client::connect(Settings { timeouts, ..standalone(server.port) }).await.unwrap();
    let mut sleep = cmd("DEBUG");
    sleep.arg("SLEEP").arg(1);
    let begun = Instant::now();
    let slow = redis.call("key", &sleep, Idempotency::NotIdempotent).await.unwrap_err();
    assert!(matches!(slow, Error::Timeout { .. }), "{slow}");
    assert!(begun.elapsed() < Duration::from_millis(900));
    // Idempotent commands are retried until the dial timeout.
    redis.call("key", &cmd("PING"), Idempotency::Idempotent).await.unwrap();
}

#[tokio::test]
async fn writes_time_out_at_write_timeout() {
    let deaf = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let timeouts = Timeouts {
        write: Duration::from_millis(200),
        read: Duration::from_mins(1),
        dial: Duration::from_mins(1),
    };
    let settings = Settings { timeouts, ..standalone(deaf.local_addr().unwrap().port()) };
    let redis = Client::connect_lazy(settings);
    let mut large = cmd("SET");
    large.arg("key").arg(vec![0_u8; 64 << 20]);
    let begun = Instant::now();
    let lost = redis.call("key", &large, Idempotency::NotIdempotent).await.unwrap_err();
    assert!(matches!(lost, Error::Timeout { .. } | Error::ConnectionLost { .. }), "{lost}");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn store_recovers_after_redis_restart() {
    if skipped() {
        return;
    }
    let mut server = Redis::start(&[]).await.unwrap();
    let timeouts = Timeouts { dial: Duration::from_secs(1), ..TIMEOUTS };
    let settings = Settings { timeouts, ..standalone(server.port) };
    let TestEnv { store, .. } = world(&settings, Limits::default()).await;
    server.kill().unwrap();
    let begun = Instant::now();
    assert_eq!(store.take_login(&Digest::of("state")).await, Err(StoreError::Unavailable));
    assert_eq!(store.ready().await, Err(StoreError::Unavailable));
    assert!(begun.elapsed() < Duration::from_secs(5));
    server.run().await.unwrap();
    // The server's scripts are lost too.
    assert_eq!(store.take_login(&Digest::of("state")).await, Ok(None));
}

#[tokio::test]
async fn corrupt_record_error_names_its_kind() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    let TestEnv { store, .. } = world(&standalone(server.port), Limits::default()).await;
    let key = Digest::of("state");
    let keys = server.cli(&["--scan"]).await.unwrap();
    assert!(keys.lines().all(|key| key.starts_with("vmcp:auth:v1:{test/")), "{keys}");
    // The name is unique to this test and its server.
    let clients = vmcp_auth_store::ClientId::new("broken").unwrap();
    let prefix = format!("{store:?}");
    let prefix = prefix.split('"').nth(1).unwrap();
    let name = |kind: &str, name: &str| format!("{prefix}{kind}:{name}");
    for key in [name("login", &key.to_text()), name("client", "broken")] {
        server.cli(&["HSET", &key, "x", "9999999999999", "d", "{", "c", ""]).await.unwrap();
    }
    assert_eq!(store.login(&key).await, Err(StoreError::Corrupt { what: "login" }));
    assert_eq!(store.client(&clients).await, Err(StoreError::Corrupt { what: "client" }));
    assert_eq!(store.take_login(&key).await, Err(StoreError::Corrupt { what: "login" }));
    // A key of another type yields a rejection by the server, not a panic.
    server.cli(&["SET", &name("client", "broken"), "text"]).await.unwrap();
    assert_eq!(store.client(&clients).await, Err(StoreError::Unavailable));
    let _: Arc<dyn Store> = store;
}
