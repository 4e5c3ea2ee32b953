use std::time::Duration;

use tokio::time::timeout;
use vmcp_redis::{Address, Event, Redis};

use crate::fake::{FakeServer, Reply};
use crate::settings;

const SUBSCRIBED: &str = "*3\r\n$9\r\nsubscribe\r\n$7\r\nchannel\r\n:1\r\n";

#[tokio::test]
async fn subscription_pauses_between_connections() {
    let server = FakeServer::start(|_| Reply::Last(SUBSCRIBED.into())).await;
    let redis = Redis::connect_lazy(settings(Address::Standalone(server.node())));
    let mut subscription = redis.subscribe("key", "channel");
    let events = async {
        loop {
            assert_eq!(subscription.next().await, Event::Subscribed);
        }
    };
    let () = timeout(Duration::from_secs(1), events).await.unwrap_or_default();
    let commands = server.commands();
    assert!((2..20).contains(&commands.len()), "{}", commands.len());
}

#[tokio::test]
async fn closed_subscription_has_no_message() {
    let server = FakeServer::start(|_| Reply::Last(SUBSCRIBED.into())).await;
    let redis = Redis::connect_lazy(settings(Address::Standalone(server.node())));
    let mut subscription = redis.subscribe("key", "channel");
    for _ in 0..2 {
        assert_eq!(subscription.message().await, None);
        subscription.subscribe().await.unwrap();
    }
    assert_eq!(server.commands().len(), 2);
}
