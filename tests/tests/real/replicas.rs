//! Two replicas of a gateway with its own authorization server, with the same Redis, keys and secrets, behind a load
//! balancer: clients see one server, and either replica may die at any moment.

mod links;
mod stopped;

use serde_json::{Value, json};
use tokio::time::{Duration, timeout};
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::{Gateway, Redis, skipped};
use vmcp_tests::load_balancer::LoadBalancer;
use vmcp_tests::login_steps::{Login, Step, StepOutcome};

use crate::issuing::TestEnv;

/// Timeout for the propagation of a change to the other replica.
const SOON: Duration = Duration::from_secs(10);

/// Maximum number of Redis requests per step.
const MOST: usize = 10;

/// Two replicas and their surroundings.
struct ReplicaPair {
    ground: TestEnv,
    redis: Redis,
    front: LoadBalancer,
    /// The first one receives the clients.
    replicas: [Replica; 2],
    /// Additional keys of `authServer`.
    more: &'static str,
}

struct Replica {
    gateway: Gateway,
    /// Proxy between the replicas and Redis.
    wire: LoadBalancer,
}

impl Replica {
    async fn start(ground: &TestEnv, redis: &Redis, front: &LoadBalancer, more: &str) -> Self {
        let wire = LoadBalancer::start().await.unwrap();
        wire.leads_to(redis.port);
        let storage = ground.redis(&format!("addr: \"127.0.0.1:{}\"", wire.port())) + more;
        Self { gateway: ground.replica(&front.origin(), &storage).await, wire }
    }
}

impl ReplicaPair {
    async fn start() -> Self {
        Self::with("").await
    }

    async fn with(more: &'static str) -> Self {
        let redis = Redis::start(&["--requirepass", "canary"]).await.unwrap();
        let ground = TestEnv::plain().await;
        let front = LoadBalancer::start().await.unwrap();
        let replica = async || Replica::start(&ground, &redis, &front, more).await;
        let replicas = [replica().await, replica().await];
        front.leads_to(replicas[0].gateway.port());
        Self { ground, redis, front, replicas, more }
    }

    fn url(&self) -> String {
        format!("{}/mcp", self.front.origin())
    }

    fn login(&self, person: &str) -> Login {
        Login::new(&self.front.origin(), person)
    }

    /// Routes clients to the other replica.
    fn switch(&mut self) {
        self.replicas.swap(0, 1);
        self.front.leads_to(self.replicas[0].gateway.port());
    }

    /// Kills the replica that receives the clients, routes clients to the other one, and starts a replacement.
    async fn kill(&mut self) {
        let another = Replica::start(&self.ground, &self.redis, &self.front, self.more).await;
        let dead = std::mem::replace(&mut self.replicas[0], another);
        dead.gateway.kill().await.unwrap();
        self.switch();
    }

    /// Retries this step and takes all further ones, from the beginning after a rejection, and uses the resulting tokens.
    /// Returns `true` if the login started over.
    async fn goes_on(&self, login: &mut Login, step: Step) -> bool {
        let refused = match login.takes(step).await.unwrap() {
            StepOutcome::Done => false,
            StepOutcome::Refused(_) => true,
            unanswered @ StepOutcome::Unanswered(_) => panic!("{step:?}: {unanswered:?}"),
        };
        if refused {
            for step in Step::ALL.into_iter().skip(1).take_while(|one| *one != step) {
                done(login, step).await;
            }
            done(login, step).await;
        }
        for step in Step::ALL.into_iter().skip_while(|one| *one != step).skip(1) {
            done(login, step).await;
        }
        assert!(self.shown(&login.access).await.starts_with("Bearer "), "{step:?}");
        refused
    }

    /// Returns the second provider's token that the backend received.
    async fn shown(&self, token: &str) -> String {
        let mut caller = Caller::stateless_as(&self.url(), token);
        let result = caller.call("fixture_whoami", json!({})).await.unwrap();
        let text = result["content"][0]["text"].as_str().unwrap();
        let seen: Value = serde_json::from_str(text).unwrap();
        seen["headers"]["authorization"].as_str().unwrap().to_owned()
    }
}

async fn done(login: &mut Login, step: Step) {
    let taken = login.takes(step).await.unwrap();
    assert!(matches!(taken, StepOutcome::Done), "{step:?}: {taken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn flows_continue_at_the_other_replica() {
    if skipped() {
        return;
    }
    let mut pair = ReplicaPair::start().await;
    let mut login = pair.login("ann");
    for step in Step::ALL {
        done(&mut login, step).await;
        pair.switch();
    }
    // A token of one replica is valid at the other, which has the providers' tokens as well.
    let here = pair.shown(&login.access).await;
    pair.switch();
    assert_eq!(pair.shown(&login.access).await, here);
}

#[tokio::test(flavor = "multi_thread")]
async fn session_revocation_reaches_the_other_replica() {
    if skipped() {
        return;
    }
    let pair = ReplicaPair::start().await;
    let mut login = pair.login("ann");
    login.goes(Step::Token).await.unwrap();
    let there = pair.replicas[1].gateway.url();
    let mut callers = [
        Caller::stateful_as(there, &login.access).await.unwrap(),
        Caller::stateless_as(there, &login.access),
    ];
    let mut streams = Vec::new();
    for caller in &mut callers {
        streams.push(caller.listen().await.unwrap());
    }
    login.revokes().await.unwrap();
    for stream in &mut streams {
        let rest = async { while let Ok(Some(_)) = stream.next().await {} };
        timeout(SOON, rest).await.expect("the stream ends");
    }
    // Lists need the upstream token too; without it they get the same status.
    for (caller, method) in callers.iter_mut().zip(["ping", "server/discover"]) {
        let reply = caller.reply(method, json!({})).await.unwrap();
        assert_eq!(reply.status, 401, "{reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resumed_replica_does_not_use_unlinked_token() {
    if skipped() {
        return;
    }
    let mut pair = ReplicaPair::start().await;
    let mut login = pair.login("ann");
    login.goes(Step::Token).await.unwrap();
    // Both replicas have it cached.
    for _ in 0..2 {
        pair.switch();
        assert!(pair.shown(&login.access).await.starts_with("Bearer "));
    }
    pair.replicas[1].gateway.signal("STOP").await.unwrap();
    login.unlinks(&pair.front.origin(), "second").await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    pair.replicas[1].gateway.signal("CONT").await.unwrap();
    for replica in &pair.replicas {
        let mut caller = Caller::stateless_as(replica.gateway.url(), &login.access);
        let outcome = caller.call("fixture_whoami", json!({})).await;
        let said = format!("{outcome:?}");
        assert!(!said.contains("Bearer "), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_other_provider_under_known_name_at_startup() {
    if skipped() {
        return;
    }
    let pair = ReplicaPair::start().await;
    pair.login("ann").goes(Step::Token).await.unwrap();
    // Other providers of the same names, with equal settings otherwise.
    let elsewhere = TestEnv::plain().await;
    let storage = pair.ground.redis(&format!("addr: \"127.0.0.1:{}\"", pair.redis.port));
    let config = elsewhere.config(&pair.front.origin(), &storage);
    let refused = Gateway::start(&config).await.err().map(|fault| fault.to_string());
    let refused = refused.expect("it starts");
    for part in ["failed to use upstream provider first", "another name"] {
        assert!(refused.contains(part), "{refused}");
    }
    // The existing replicas continue.
    assert!(pair.login("bob").goes(Step::Token).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn login_survives_replica_kill_after_any_step() {
    if skipped() {
        return;
    }
    let mut pair = ReplicaPair::start().await;
    for last in Step::ALL {
        let mut login = pair.login("ann");
        for step in Step::ALL {
            done(&mut login, step).await;
            if step == last {
                pair.kill().await;
            }
        }
        assert!(pair.shown(&login.access).await.starts_with("Bearer "), "{last:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn login_recovers_from_replica_kill_before_response() {
    if skipped() {
        return;
    }
    let mut pair = ReplicaPair::start().await;
    let mut anew = Vec::new();
    for lost in Step::ALL {
        let mut login = pair.login("ann");
        for step in Step::ALL.into_iter().take_while(|step| *step != lost) {
            done(&mut login, step).await;
        }
        pair.front.loses_an_answer();
        let taken = login.takes(lost).await.unwrap();
        assert!(matches!(taken, StepOutcome::Unanswered(_)), "{lost:?}: {taken:?}");
        pair.kill().await;
        anew.extend(pair.goes_on(&mut login, lost).await.then_some(lost));
    }
    // The lost response has consumed the single-use value: the user or the client starts over.
    assert_eq!(anew, [Step::Consent, Step::First, Step::Second, Step::Token]);
}

#[tokio::test(flavor = "multi_thread")]
async fn login_recovers_from_replica_kill_between_redis_requests() {
    if skipped() {
        return;
    }
    let mut pair = ReplicaPair::start().await;
    let mut points = Vec::new();
    for killed in Step::ALL {
        for before in 0..=MOST {
            let mut login = pair.login("ann");
            for step in Step::ALL.into_iter().take_while(|step| *step != killed) {
                done(&mut login, step).await;
            }
            // Redis processes every request, but the gateway replica receives only this many responses.
            pair.replicas[0].wire.holds_answers_after(before);
            let taken = {
                let mut taking = Box::pin(login.takes(killed));
                tokio::select! {
                    taken = &mut taking => taken,
                    () = pair.replicas[0].wire.held() => {
                        pair.kill().await;
                        taking.await
                    }
                }
            };
            if let StepOutcome::Done = taken.unwrap() {
                // The step made fewer Redis requests than that.
                pair.kill().await;
                break;
            }
            points.push((killed, before, pair.goes_on(&mut login, killed).await));
        }
    }
    let never = [Step::Register, Step::Authorize, Step::Refresh];
    for (step, before, anew) in &points {
        assert!(!(*anew && never.contains(step)), "{step:?} begun anew after {before}: {points:?}");
    }
    // At least the documented number of Redis requests per step.
    let times = [1, 2, 2, 4, 4, 2, 3];
    for (step, times) in Step::ALL.into_iter().zip(times) {
        let found = points.iter().filter(|(killed, ..)| *killed == step).count();
        assert!((times..=MOST).contains(&found), "{step:?}: {points:?}");
    }
}
