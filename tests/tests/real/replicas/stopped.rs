//! Revocations while a replica or Redis is stopped (SIGSTOP) at the worst moment.

use std::fs;

use serde_json::{Value, json};
use tokio::time::{Duration, sleep, timeout};
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::{Gateway, skipped};
use vmcp_tests::load_balancer::LoadBalancer;
use vmcp_tests::login_steps::{Login, Step, StepOutcome};

use super::{ReplicaPair, SOON, done};

/// Number of repetitions of timing-dependent tests.
const ROUNDS: usize = 5;

/// Minimum number of Redis responses that a replica awaits at its start.
const ANSWERS: usize = 6;

impl ReplicaPair {
    async fn stops(&self, replica: usize) {
        self.replicas[replica].gateway.signal("STOP").await.unwrap();
    }

    async fn continues(&self, replica: usize) {
        self.replicas[replica].gateway.signal("CONT").await.unwrap();
    }
}

/// Returns each gateway's own response status: a backend call would need an upstream token, and its absence is a 401 too.
async fn statuses(gateways: &[&Gateway], token: &str) -> Vec<u16> {
    let mut statuses = Vec::new();
    for gateway in gateways {
        let mut caller = Caller::stateless_as(gateway.url(), token);
        statuses.push(caller.reply("server/discover", json!({})).await.unwrap().status.as_u16());
    }
    statuses
}

async fn logged_in(pair: &ReplicaPair) -> Login {
    let mut login = pair.login("ann");
    login.goes(Step::Token).await.unwrap();
    login
}

#[tokio::test(flavor = "multi_thread")]
async fn resumed_replica_rejects_revoked_token() {
    if skipped() {
        return;
    }
    let pair = ReplicaPair::start().await;
    let gateways = [&pair.replicas[0].gateway, &pair.replicas[1].gateway];
    for _ in 0..ROUNDS {
        let login = logged_in(&pair).await;
        assert_eq!(statuses(&gateways, &login.access).await, [200, 200]);
        pair.stops(1).await;
        login.revokes().await.unwrap();
        pair.continues(1).await;
        assert_eq!(statuses(&gateways[1..], &login.access).await, [401]);
        assert_eq!(statuses(&gateways, &login.access).await, [401, 401]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_token_revoked_during_replica_start() {
    if skipped() {
        return;
    }
    let pair = ReplicaPair::start().await;
    // The replica has received this many responses from Redis, and the next one arrives after the revocation.
    for heard in 0..ANSWERS {
        let login = logged_in(&pair).await;
        let wire = LoadBalancer::start().await.unwrap();
        wire.leads_to(pair.redis.port);
        wire.holds_answers_after(heard);
        let released = async {
            wire.held().await;
            login.revokes().await.unwrap();
            wire.releases();
        };
        let storage = pair.ground.redis(&format!("addr: \"127.0.0.1:{}\"", wire.port()));
        let origin = pair.front.origin();
        let starting = pair.ground.replica(&origin, &storage);
        let (another, ()) = tokio::join!(starting, released);
        assert_eq!(statuses(&[&another], &login.access).await, [401], "{heard}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn replica_without_redis_serves_no_requests() {
    if skipped() {
        return;
    }
    let pair = ReplicaPair::start().await;
    let login = logged_in(&pair).await;
    let other = logged_in(&pair).await;
    login.revokes().await.unwrap();
    pair.redis.signal("STOP").await.unwrap();
    let storage = pair.ground.redis(&format!("addr: \"127.0.0.1:{}\"", pair.redis.port));
    let config = pair.ground.config(&pair.front.origin(), &storage);
    match Gateway::start(&config).await {
        // No request is served without the revocations.
        Err(fault) => assert!(fault.to_string().contains("Redis"), "{fault}"),
        Ok(gateway) => assert_eq!(statuses(&[&gateway], &other.access).await, [503]),
    }
    // The running replicas still know the revocation.
    let known = [&pair.replicas[0].gateway, &pair.replicas[1].gateway];
    assert_eq!(statuses(&known, &login.access).await, [401, 401]);
    pair.redis.signal("CONT").await.unwrap();
    let started = Gateway::start(&config).await.unwrap();
    assert_eq!(statuses(&[&started], &login.access).await, [401]);
    assert_eq!(statuses(&[&started], &other.access).await, [200]);
}

#[tokio::test(flavor = "multi_thread")]
async fn revocation_is_not_claimed_while_redis_is_stopped() {
    if skipped() {
        return;
    }
    let pair = ReplicaPair::start().await;
    let login = logged_in(&pair).await;
    pair.redis.signal("STOP").await.unwrap();
    let claimed = login.revokes().await;
    pair.redis.signal("CONT").await.unwrap();
    let gateways = [&pair.replicas[0].gateway, &pair.replicas[1].gateway];
    assert!(claimed.is_err(), "it was not stored");
    login.revokes().await.unwrap();
    for _ in 0..100 {
        if statuses(&gateways, &login.access).await == [401, 401] {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("a replica did not hear of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn shorter_lifespan_keeps_revocations_of_stopped_replica() {
    if skipped() {
        return;
    }
    let pair = ReplicaPair::start().await;
    let login = logged_in(&pair).await;
    let gateways = [&pair.replicas[0].gateway, &pair.replicas[1].gateway];
    pair.stops(1).await;
    login.revokes().await.unwrap();
    // The configuration changes on both replicas while one of them is stopped.
    for gateway in gateways {
        let text = fs::read_to_string(gateway.config()).unwrap();
        let shorter = "authServer:\n  tokenLifespans: {accessTokenLifespan: 1m}\n";
        fs::write(gateway.config(), text.replace("authServer:\n", shorter)).unwrap();
        gateway.signal("HUP").await.unwrap();
    }
    pair.continues(1).await;
    for gateway in gateways {
        let reloaded = async {
            while !gateway.log().contains("configuration reloaded") {
                sleep(Duration::from_millis(50)).await;
            }
        };
        assert!(timeout(SOON, reloaded).await.is_ok(), "{}", gateway.log());
    }
    for _ in 0..10 {
        assert_eq!(statuses(&gateways, &login.access).await, [401, 401]);
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn user_rejection_ends_sessions_on_stopped_replica() {
    if skipped() {
        return;
    }
    let mut pair = ReplicaPair::with("  upstreamCheckInterval: 1s\n").await;
    let mut login = logged_in(&pair).await;
    let other = logged_in(&pair).await;
    let gateways = [&pair.replicas[0].gateway, &pair.replicas[1].gateway];
    assert_eq!(statuses(&gateways, &login.access).await, [200, 200]);
    sleep(Duration::from_millis(1100)).await;
    // The provider still has the user's session.
    done(&mut login, Step::Refresh).await;
    assert_eq!(statuses(&gateways, &login.access).await, [200, 200]);
    pair.ground.first.forgets().await.unwrap();
    sleep(Duration::from_millis(1100)).await;
    pair.stops(1).await;
    let taken = login.takes(Step::Refresh).await.unwrap();
    assert!(
        matches!(&taken, StepOutcome::Refused(said) if said.contains("invalid_grant")),
        "{taken:?}"
    );
    pair.continues(1).await;
    let gateways = [&pair.replicas[1].gateway, &pair.replicas[0].gateway];
    assert_eq!(statuses(&gateways, &login.access).await, [401, 401]);
    // The provider is asked about the user's other session, too.
    let ended = async {
        while statuses(&gateways, &other.access).await != [401, 401] {
            sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(timeout(SOON, ended).await.is_ok(), "the other session goes on");
    // The other replica does not refresh it either.
    pair.switch();
    let taken = login.takes(Step::Refresh).await.unwrap();
    assert!(
        matches!(&taken, StepOutcome::Refused(said) if said.contains("invalid_grant")),
        "{taken:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unlink_changes_catalog_on_stopped_replica() {
    if skipped() {
        return;
    }
    let pair = ReplicaPair::start().await;
    let other = logged_in(&pair).await;
    // The connections page lists the newest session first.
    let mut login = logged_in(&pair).await;
    let gateways = [&pair.replicas[0].gateway, &pair.replicas[1].gateway];
    for token in [&login.access, &other.access] {
        for gateway in gateways {
            assert!(tools(gateway, token).await > 0);
        }
    }
    pair.stops(1).await;
    login.unlinks(&pair.front.origin(), "second").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    pair.continues(1).await;
    for gateway in gateways {
        assert_eq!(tools(gateway, &login.access).await, 0, "the backend takes no other token");
        assert!(tools(gateway, &other.access).await > 0, "a session of its own");
    }
}

/// Returns the number of tools that a gateway lists.
async fn tools(gateway: &Gateway, token: &str) -> usize {
    let mut caller = Caller::stateless_as(gateway.url(), token);
    let listed = caller.reply("tools/list", json!({})).await.unwrap();
    let listed: Value = serde_json::from_slice(&listed.body).unwrap();
    listed["result"]["tools"].as_array().map_or(0, Vec::len)
}
