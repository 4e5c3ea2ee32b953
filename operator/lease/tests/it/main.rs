//! Candidates against an API server in memory.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Client,
    api::{Api, Patch, PatchParams},
};
use serde_json::json;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};
use vmcp_kube_fixture::{ApiServer, Fault, FaultRule};
use vmcp_lease::{Candidate, Environment, LostLeadership};

fn candidate(server: &ApiServer, identity: &str) -> Candidate {
    let epoch = Instant::now();
    let now = move || Timestamp::UNIX_EPOCH + epoch.elapsed();
    let environment = Environment::new(now, |bytes| bytes.fill(0));
    let client = Client::new(server.clone(), "default");
    Candidate::new(client, "default", "leader", identity.to_owned(), environment)
}

fn lead(mut candidate: Candidate) -> JoinHandle<LostLeadership> {
    tokio::spawn(async move {
        candidate.acquire().await;
        candidate.renew().await
    })
}

async fn pass(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn renewal_is_one_request() {
    let server = ApiServer::new();
    let leader = lead(candidate(&server, "one"));
    pass(1).await;
    server.forget_requests();
    pass(20).await;
    let requests = server.requests();
    assert!((9..=10).contains(&requests.len()), "{}", requests.len());
    assert!(requests.iter().all(|request| request.verb == "update" && request.status == 200));
    assert!(!leader.is_finished());
}

#[tokio::test(start_paused = true)]
async fn foreign_metadata_does_not_end_leadership() {
    let server = ApiServer::new();
    let leader = lead(candidate(&server, "one"));
    pass(1).await;
    let leases: Api<Lease> = Api::default_namespaced(Client::new(server.clone(), "default"));
    let labels = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "leader", "labels": {"a": "b"}},
    });
    let parameters = PatchParams::apply("owner");
    leases.patch("leader", &parameters, &Patch::Apply(&labels)).await.unwrap();
    pass(60).await;
    assert!(!leader.is_finished());
    let lease = leases.get("leader").await.unwrap();
    assert_eq!(lease.metadata.labels.unwrap()["a"], "b");
}

#[tokio::test(start_paused = true)]
async fn one_of_two_candidates_leads() {
    let server = ApiServer::new();
    let (one, two) = (lead(candidate(&server, "one")), lead(candidate(&server, "two")));
    pass(60).await;
    assert!(!one.is_finished() && !two.is_finished());
    let lease = server.get("coordination.k8s.io", "leases", "default", "leader").unwrap();
    assert_eq!(lease["spec"]["leaseTransitions"], 0);
    // Only the leader notices.
    server.disturb(FaultRule::new(Fault::Refuse));
    let lost = timeout(Duration::from_secs(15), one).await.unwrap().unwrap();
    assert!(lost.to_string().contains("within 10 s"), "{lost}");
    assert!(!two.is_finished());
}

#[tokio::test(start_paused = true)]
async fn candidate_without_creation_waits_for_lease() {
    let server = ApiServer::new();
    let mut waiting = candidate(&server, "one").without_creation();
    assert!(timeout(Duration::from_mins(1), waiting.acquire()).await.is_err());
    assert_eq!(server.writes(), Vec::<String>::new());
    let mut creating = candidate(&server, "two");
    creating.acquire().await;
    creating.release().await;
    timeout(Duration::from_mins(1), waiting.acquire()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn problem_is_told_until_it_ends() {
    let server = ApiServer::new();
    let mut waiting = candidate(&server, "one").without_creation();
    let problem = waiting.problem();
    let text = || problem.borrow().clone();
    _ = timeout(Duration::from_secs(1), waiting.acquire()).await;
    assert_eq!(text().as_deref(), Some("the Lease leader does not exist"));
    server.disturb(FaultRule::new(Fault::Status(403)));
    _ = timeout(Duration::from_secs(1), waiting.acquire()).await;
    assert!(text().unwrap().ends_with(" (403)"), "{:?}", text());
    server.revive();
    candidate(&server, "two").acquire().await;
    _ = timeout(Duration::from_secs(1), waiting.acquire()).await;
    assert_eq!(text(), None);
}
