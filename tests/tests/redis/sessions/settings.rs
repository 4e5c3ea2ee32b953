//! Startup: an unusable Redis is reported with its cause.

use vmcp_redis::{Credentials, Error, Settings, Tls};
use vmcp_session_redis::StartError;
use vmcp_tests::counterparts::{Certificates, Redis, skipped};

use super::fixtures::{fill, key_prefix, pair, start};
use crate::fixtures::standalone;

fn as_user(port: u16, user: Option<&str>, password: &str) -> Settings {
    let secret = |text: &str| Some(text.to_owned().into());
    let credentials = Credentials { user: user.and_then(secret), password: secret(password) };
    Settings { credentials, ..standalone(port) }
}

#[tokio::test]
async fn reports_wrong_password() {
    if skipped() {
        return;
    }
    let server = Redis::start(&["--requirepass", "canary-right"]).await.unwrap();
    pair(&as_user(server.port, None, "canary-right")).await;
    for settings in [as_user(server.port, None, "canary-wrong"), standalone(server.port)] {
        let error = start(&settings, &key_prefix()).await.unwrap_err();
        let is_expected = matches!(error, StartError::Redis(Error::InvalidCredentials { .. }));
        assert!(is_expected, "{error}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }
}

#[tokio::test]
async fn names_denied_command() {
    if skipped() {
        return;
    }
    let documented =
        "~vmcp:* &vmcp:* +@hash +@sortedset +@scripting +@pubsub +@connection +del +pexpire +time";
    let server = Redis::start(&[]).await.unwrap();
    let user = async |name: &str, rules: &str| {
        let user = format!("ACL SETUSER {name} on >secret -@all {rules}");
        server.cli(&user.split(' ').collect::<Vec<_>>()).await.unwrap();
        start(&as_user(server.port, Some(name), "secret"), &key_prefix()).await.err()
    };
    assert_eq!(user("good", documented).await, None);
    for denied in [
        "del",
        "evalsha",
        "hdel",
        "hexists",
        "hget",
        "hgetall",
        "hincrby",
        "hlen",
        "hmget",
        "hset",
        "hstrlen",
        "pexpire",
        "publish",
        "subscribe",
        "time",
        "zadd",
        "zcard",
        "zmscore",
        "zpopmin",
        "zrange",
        "zrangebyscore",
        "zrem",
        "zremrangebyscore",
        "zrevrangebyscore",
        "zscore",
    ] {
        let error = user(denied, &format!("{documented} -{denied}")).await.unwrap().to_string();
        assert!(error.to_lowercase().contains(denied), "{denied}: {error}");
        assert!(error.contains("~vmcp:test-") && error.contains("&vmcp:test-"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
    for (name, rules) in [
        ("keys", documented.replace("~vmcp:*", "~other:*")),
        ("channels", documented.replace("&vmcp:*", "&other:*")),
    ] {
        let error = user(name, &rules).await.unwrap().to_string();
        assert!(error.contains("denies") && error.contains("&vmcp:test-"), "{error}");
    }
}

#[tokio::test]
async fn reports_untrusted_certificate() {
    if skipped() {
        return;
    }
    let (tls, other) = (Certificates::new(&[]).unwrap(), Certificates::new(&[]).unwrap());
    let arguments = tls.arguments();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let server = Redis::start(&arguments).await.unwrap();
    let over = |tls: &Certificates| Settings {
        tls: Some(Tls::with_ca(&tls.pem().unwrap()).unwrap()),
        ..standalone(server.port)
    };
    pair(&over(&tls)).await;
    let error = start(&over(&other), &key_prefix()).await.unwrap_err();
    assert!(matches!(error, StartError::Redis(Error::Tls { .. })), "{error}");
}

#[tokio::test]
async fn reports_full_server() {
    if skipped() {
        return;
    }
    let server = Redis::start(&["--maxmemory-policy", "noeviction"]).await.unwrap();
    fill(&server).await;
    let error = start(&standalone(server.port), &key_prefix()).await.unwrap_err();
    assert_eq!(error, StartError::Full);
}

#[tokio::test]
async fn reports_read_only_replica() {
    if skipped() {
        return;
    }
    let master = Redis::start(&[]).await.unwrap();
    let port = master.port.to_string();
    let replica = Redis::start(&["--replicaof", "127.0.0.1", &port]).await.unwrap();
    replica.until(&["INFO", "replication"], "master_link_status:up").await.unwrap();
    let error = start(&standalone(replica.port), &key_prefix()).await.unwrap_err();
    assert_eq!(error, StartError::ReadOnly);
}

#[tokio::test]
async fn leaves_keys_of_other_programs_alone() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    for (key, command, value) in [
        ("format", &["SET", "KEY", "other"][..], "other"),
        ("format", &["HSET", "KEY", "f", "2"], "2"),
        ("format", &["RPUSH", "KEY", "other"], "other"),
        ("ended", &["SET", "KEY", "other"], "other"),
        ("probe", &["SET", "KEY", "other"], "other"),
    ] {
        let prefix = key_prefix();
        let name = format!("{prefix}{{sessions}}:{key}");
        let write: Vec<_> =
            command.iter().map(|word| if *word == "KEY" { &*name } else { word }).collect();
        server.cli(&write).await.unwrap();
        let error = start(&standalone(server.port), &prefix).await.unwrap_err();
        assert_eq!(error, StartError::UnknownFormat { key: name.clone() });
        let kind = server.cli(&["TYPE", &name]).await.unwrap();
        let read = match kind.trim() {
            "string" => vec!["GET", &name],
            "hash" => vec!["HGET", &name, "f"],
            _ => vec!["LRANGE", &name, "0", "-1"],
        };
        assert_eq!(server.cli(&read).await.unwrap().trim(), value);
        assert_eq!(server.cli(&["PTTL", &name]).await.unwrap().trim(), "-1");
    }
}

#[tokio::test]
async fn rejects_prefix_with_braces() {
    if skipped() {
        return;
    }
    let server = Redis::start(&[]).await.unwrap();
    for prefix in ["vmcp:{a}:", "{", "}"] {
        let error = start(&standalone(server.port), prefix).await.unwrap_err();
        assert_eq!(error, StartError::Prefix { prefix: prefix.to_owned() });
    }
}
