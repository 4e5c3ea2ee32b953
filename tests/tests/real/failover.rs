//! Redis failover during logins and token refreshes at gateways with their own authorization servers.

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Duration, Instant, sleep};
use vmcp_redis::{Address, Credentials, Idempotency, Node, Redis as Client, Sentinel, Settings};
use vmcp_redis::{Timeouts, cmd};
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::{Gateway, Redis, RedisCluster, RedisSentinels, skipped};
use vmcp_tests::login_steps::{Login, Step, StepOutcome};

use crate::issuing::TestEnv;

/// Timeout for the election of a new master.
const FAILOVER: Duration = Duration::from_mins(1);

const SECOND: Duration = Duration::from_secs(1);
const PASSWORD: &str = "canary";

/// Last steps before a server dies: the browser is at the first provider, or the client has its tokens.
const MOMENTS: [Step; 2] = [Step::Consent, Step::Token];

/// Retries a step until it succeeds and returns the responses in between.
async fn takes(login: &mut Login, step: Step) -> Vec<String> {
    let (begun, mut answers) = (Instant::now(), Vec::new());
    loop {
        match login.takes(step).await.unwrap() {
            StepOutcome::Done => return answers,
            StepOutcome::Unanswered(answer) if begun.elapsed() < FAILOVER => answers.push(answer),
            taken => panic!("{step:?} after {:?}: {taken:?}", begun.elapsed()),
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Requires a password at every server from now on.
async fn guard(servers: impl IntoIterator<Item = &Redis>) {
    let servers: Vec<_> = servers.into_iter().collect();
    for setting in ["masterauth", "requirepass"] {
        let set = servers.iter().map(async |server| {
            let asked = ["-a", PASSWORD, "--no-auth-warning", "CONFIG", "SET", setting, PASSWORD];
            server.cli(&asked).await.unwrap();
        });
        join_all(set).await;
    }
}

fn settings(address: Address) -> Settings {
    let password = Some(PASSWORD.to_owned().into());
    let timeouts = Timeouts { dial: SECOND * 5, read: SECOND * 3, write: SECOND * 3 };
    Settings { address, credentials: Credentials { user: None, password }, tls: None, timeouts }
}

/// Waits until a replica has all previous writes, proven by a later write on another connection.
async fn until_replicated(settings: &Settings, key: &str) {
    let redis = Client::connect(settings.clone()).await.unwrap();
    let (mut write, mut wait) = (cmd("SET"), cmd("WAIT"));
    write.arg(key).arg("");
    redis.call(key, &write, Idempotency::Idempotent).await.unwrap();
    wait.arg(1).arg(2000);
    let replicas = redis.call(key, &wait, Idempotency::Idempotent).await.unwrap();
    assert_eq!(replicas, vmcp_redis::Value::Int(1));
}

/// Returns a key of the gateway's on a server, if there is one.
async fn key(server: &Redis) -> Option<String> {
    let asked = ["-a", PASSWORD, "--no-auth-warning", "KEYS", "vmcp:auth:v1:*"];
    let keys = server.cli(&asked).await.unwrap();
    keys.lines().find(|key| !key.is_empty()).map(str::to_owned)
}

async fn is_master(server: &Redis) -> bool {
    let role = server.cli(&["-a", PASSWORD, "--no-auth-warning", "ROLE"]).await.unwrap();
    role.starts_with("master")
}

/// Performs a login up to this step.
async fn login(gateway: &Gateway, last: Step) -> Login {
    let mut login = Login::new(gateway.url().trim_end_matches("/mcp"), "ann");
    login.goes(last).await.unwrap();
    login
}

/// Performs the remaining steps and uses the resulting tokens.
async fn goes_on(gateway: &Gateway, login: &mut Login, last: Step) {
    let begun = Instant::now();
    let left = Step::ALL.into_iter().skip_while(|step| *step != last).skip(1);
    for step in left {
        for answer in takes(login, step).await {
            assert!(answer.starts_with("503"), "{step:?}: {answer}");
        }
        eprintln!("after {last:?}: {step:?} was done after {:?}", begun.elapsed());
    }
    let mut caller = Caller::stateless_as(gateway.url(), &login.access);
    caller.call("fixture_whoami", json!({})).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn login_and_refresh_survive_sentinel_failover() {
    if skipped() {
        return;
    }
    let ground = TestEnv::plain().await;
    for last in MOMENTS {
        let mut group = RedisSentinels::start(None, None).await.unwrap();
        guard(&group.servers).await;
        for sentinel in &group.sentinels {
            let set = ["SENTINEL", "SET", "mymaster", "auth-pass", PASSWORD];
            sentinel.cli(&set).await.unwrap();
        }
        let ports: Vec<_> = group.sentinels.iter().map(|sentinel| sentinel.port).collect();
        let addresses: Vec<_> = ports.iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect();
        let place = format!(
            "sentinelConfig: {{masterName: mymaster, db: 0, sentinelAddrs: [{}]}}",
            addresses.join(", ")
        );
        let gateway = ground.gateway(&ground.redis(&place)).await;
        let mut login = login(&gateway, last).await;
        let address = Address::Sentinel(Sentinel {
            master: "mymaster".to_owned(),
            database: 0,
            nodes: ports.iter().map(|port| Node::new("127.0.0.1", *port)).collect(),
            tls: None,
        });
        until_replicated(&settings(address), "written").await;
        // One Sentinel dies as well; two are a majority.
        group.sentinels[0].kill().unwrap();
        group.servers[0].kill().unwrap();
        goes_on(&gateway, &mut login, last).await;
        assert!(is_master(&group.servers[1]).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn login_and_refresh_survive_cluster_node_failure() {
    if skipped() {
        return;
    }
    let ground = TestEnv::plain().await;
    for last in MOMENTS {
        let mut cluster = RedisCluster::start(None).await.unwrap();
        guard(&cluster.nodes).await;
        let place = format!("addr: \"127.0.0.1:{}\", clusterMode: true", cluster.nodes[0].port);
        let gateway = ground.gateway(&ground.redis(&place)).await;
        let mut login = login(&gateway, last).await;
        let mut serving = None;
        for (number, node) in cluster.nodes.iter().enumerate() {
            if let Some(key) = key(node).await
                && is_master(node).await
            {
                serving = Some((number, key));
            }
        }
        let (serving, key) = serving.unwrap();
        let prefix = &key[..=key.find('}').unwrap()];
        let address = Address::Cluster(vec![Node::new("127.0.0.1", cluster.nodes[0].port)]);
        until_replicated(&settings(address), &format!("{prefix}:written")).await;
        cluster.nodes[serving].kill().unwrap();
        goes_on(&gateway, &mut login, last).await;
    }
}
