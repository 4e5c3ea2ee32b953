use vmcp_redis::{Address, Error, Idempotency, Redis, Script, Value};

use crate::fake::{FakeServer, Reply};
use crate::settings;

#[tokio::test]
async fn source_of_script_follows_unknown_digest() {
    let server = FakeServer::start(|command| {
        if command.starts_with("EVALSHA ") {
            Reply::Text("-NOSCRIPT No matching script\r\n".into())
        } else {
            Reply::Text(":1\r\n".into())
        }
    })
    .await;
    let redis = Redis::connect_lazy(settings(Address::Standalone(server.node())));
    let script = Script::new("return 1");
    let executed = redis.run(&script, "key", &"argument", Idempotency::NotIdempotent).await;
    assert_eq!(executed, Ok(Value::Int(1)));
    let digest = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    let expected =
        [format!("EVALSHA {digest} 1 key argument"), "EVAL return 1 1 key argument".into()];
    assert_eq!(server.commands(), expected);
}

#[tokio::test]
async fn failed_script_is_not_repeated() {
    let server = FakeServer::start(|_| Reply::Text("-ERR user_script:1\r\n".into())).await;
    let redis = Redis::connect_lazy(settings(Address::Standalone(server.node())));
    let script = Script::new("return 1");
    let failed = redis.run(&script, "key", &"argument", Idempotency::Idempotent).await;
    assert_eq!(failed, Err(Error::CommandFailed { node: server.node(), code: "ERR".into() }));
    assert_eq!(server.commands().len(), 1);
}
