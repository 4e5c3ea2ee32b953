//! Three replicas behind a load balancer without affinity, each killed in turn under load and replaced.

mod ledger;
mod questions;
mod record;
mod rig;
mod rotation;
mod scripted;
mod secret_mount;
mod storage;
mod trips;

use std::env;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::sleep;
use vmcp_tests::counterparts::{Client, ClientLoad, Era, skipped};
use vmcp_tests::round_robin::Balance;

use self::ledger::is_repeatable;
use self::questions::{Answers, ask_all, retry_lost_calls};
use self::record::{Counts, Record};
use self::rig::{Rig, Setup};
use self::scripted::Scripted;
use self::storage::Storage;

/// Number of scripted clients in the tests of each change, and of those of the SDKs.
const CLIENTS: [usize; 2] = [40, 4];

/// Variable with a factor for the numbers of clients; 10 has 400 scripted ones and 40 of the SDKs.
const FACTOR: &str = "VMCP_SCALE_OUT_FACTOR";

/// Results of each client between two changes of the replicas.
const RESULTS: usize = 6;

/// Clients under load.
struct Load {
    scripted: Scripted,
    sdks: Vec<ClientLoad>,
}

impl Load {
    async fn start(rig: &Rig) -> Self {
        let factor = env::var(FACTOR).map_or(1, |factor| factor.parse().unwrap());
        let [scripted, sdks] = CLIENTS.map(|count| count * factor);
        let kinds = [
            (Client::PythonMcp, Era::Legacy, Balance::PerConnection),
            (Client::PythonMcp, Era::Modern, Balance::PerRequest),
            (Client::TypeScript1, Era::Legacy, Balance::PerRequest),
            (Client::TypeScript2, Era::Modern, Balance::PerConnection),
        ];
        let connecting = kinds.map(async |(client, era, balance)| {
            ClientLoad::start(client, &rig.url(balance).await, era, sdks / 4).await.unwrap()
        });
        let sdks = join_all(connecting).await;
        Self { scripted: Scripted::start(rig, scripted).await, sdks }
    }

    /// Kills each replica in turn, and replaces it.
    async fn kill_each(&self, rig: &mut Rig) {
        self.scripted.progress(RESULTS).await;
        for _ in 0..rig.replicas.len() {
            rig.kill(0).await;
            self.scripted.progress(RESULTS).await;
            rig.replace().await;
            self.scripted.progress(RESULTS).await;
        }
    }

    /// Stops the clients and counts.
    async fn counts(self, rig: &Rig) -> [Counts; 2] {
        let mut records = Vec::<Record>::new();
        for sdk in self.sdks {
            records.extend(sdk.stop::<Vec<Record>>().await.unwrap());
        }
        let ledgers = [&rig.stateful, &rig.stateless];
        let sdks = Counts::of(&records, &ledgers);
        let scripted = Counts::of(&self.scripted.stop().await, &ledgers);
        eprintln!("scripted clients:\n{scripted}\nclients of the SDKs:\n{sdks}");
        [scripted, sdks]
    }
}

/// Asserts what holds in each set-up.
fn assert_nothing_lost(counts: &Counts) {
    assert_eq!(counts.ended, 0, "a client session ended");
    assert_eq!(counts.lost, 0, "a result was lost");
    assert_eq!(counts.repeated, 0, "a call was repeated");
    assert_eq!(counts.set_back, 0, "a session of the backend was set back");
    assert_eq!(counts.unmarked, 0, "a lost session of the backend was not marked");
    assert_eq!(counts.retryable, 0, "a call that may have acted is called retryable");
}

/// Asserts that no client was told twice of a session. After a loss of all records this may happen: of two replicas with a session
/// each, the one that gives way marks its next result, and cannot know what its client got from the other.
fn assert_marked_once(counts: &Counts) {
    assert_eq!(counts.marked_again, 0, "a session that the client knew was marked");
}

/// Kills replicas that share a key ring alone.
async fn kill_with_seals(setup: Setup) {
    let mut rig = Rig::start(setup).await;
    let load = Load::start(&rig).await;
    load.kill_each(&mut rig).await;
    let counts = load.counts(&rig).await;
    for counts in &counts {
        assert_nothing_lost(counts);
        assert_marked_once(counts);
        assert!(counts.rejected.is_empty(), "{:?}", counts.rejected);
        assert!(counts.marked > 0, "no session of the backend was lost");
    }
    assert!(counts[0].broken > 0, "no call was in flight");
}

#[tokio::test(flavor = "multi_thread")]
async fn sealed_sessions_survive_killed_replicas() {
    if skipped() {
        return;
    }
    kill_with_seals(Setup::default()).await;
}

/// Kills replicas that share a storage.
async fn kill_with_storage(setup: Setup) {
    let mut rig = Rig::start(setup).await;
    let load = Load::start(&rig).await;
    load.kill_each(&mut rig).await;
    let counts = load.counts(&rig).await;
    for counts in &counts {
        assert_nothing_lost(counts);
        assert_marked_once(counts);
        assert!(counts.rejected.is_empty(), "{:?}", counts.rejected);
        assert_eq!(counts.marked, 0, "a session of the backend was lost");
        assert_eq!(counts.backend_sessions, counts.clients / 2, "one for each session");
    }
    assert!(counts[0].broken > 0, "no call was in flight");
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_sessions_survive_killed_replicas() {
    if skipped() {
        return;
    }
    let storage = Storage::single().await;
    kill_with_storage(storage.setup()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_sessions_with_peers_survive_kills() {
    if skipped() {
        return;
    }
    let storage = Storage::single().await;
    kill_with_storage(Setup { has_peers: true, ..storage.setup() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_sessions_with_affinity_survive_kills() {
    if skipped() {
        return;
    }
    let storage = Storage::single().await;
    kill_with_storage(Setup { has_affinity: true, ..storage.setup() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sealed_sessions_with_affinity_survive_kills() {
    if skipped() {
        return;
    }
    kill_with_seals(Setup { has_affinity: true, ..Setup::default() }).await;
}

/// Lets the storage fail and a replica die meanwhile, then kills each replica in turn.
async fn fail_under_load(mut storage: Storage) -> [Counts; 2] {
    let mut rig = Rig::start(storage.setup()).await;
    let load = Load::start(&rig).await;
    load.scripted.progress(RESULTS).await;
    tokio::join!(storage.fail(), async {
        sleep(Duration::from_secs(1)).await;
        rig.kill(0).await;
    });
    load.scripted.progress(RESULTS).await;
    rig.replace().await;
    load.kill_each(&mut rig).await;
    let counts = load.counts(&rig).await;
    counts.iter().for_each(assert_nothing_lost);
    for message in counts.iter().flat_map(|counts| counts.rejected.keys()) {
        assert!(message.contains("session storage"), "{message}");
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_sessions_survive_sentinel_failover() {
    if skipped() {
        return;
    }
    fail_under_load(Storage::sentinels().await).await.iter().for_each(assert_marked_once);
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_sessions_survive_cluster_node_failure() {
    if skipped() {
        return;
    }
    fail_under_load(Storage::cluster().await).await.iter().for_each(assert_marked_once);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_survive_redis_outage_and_killed_replicas() {
    if skipped() {
        return;
    }
    fail_under_load(Storage::single().await).await;
}

/// Prints and returns the counts of questions.
async fn questions(rig: &Rig) -> [Answers; 4] {
    let answers = ask_all(rig).await;
    let elsewhere: usize = answers.iter().map(|answers| answers.elsewhere).sum();
    let at_call: usize = answers.iter().map(|answers| answers.at_call).sum();
    eprintln!("{elsewhere} of {} answers taken at another replica", elsewhere + at_call);
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn replica_rejects_answers_for_unknown_calls() {
    if skipped() {
        return;
    }
    // Without forwarding, only questions of a stateless backend to a stateless client belong to no replica.
    let [first, second, third, last] = questions(&Rig::start(Setup::default()).await).await;
    for rejected in [first, second, third] {
        assert_eq!((rejected.elsewhere, rejected.at_call), (0, 25));
    }
    assert_eq!((last.elsewhere, last.at_call), (25, 0));
}

fn with_peers() -> Setup {
    Setup { has_peers: true, ..Setup::default() }
}

/// Asks questions under load. Each is answered at another replica.
async fn answer_elsewhere(setup: Setup) {
    let rig = Rig::start(setup).await;
    let load = Load::start(&rig).await;
    load.scripted.progress(RESULTS).await;
    for answers in questions(&rig).await {
        assert_eq!((answers.elsewhere, answers.at_call), (25, 0));
    }
    for counts in &load.counts(&rig).await {
        assert_nothing_lost(counts);
        assert_marked_once(counts);
        assert!(counts.rejected.is_empty(), "{:?}", counts.rejected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_at_other_replicas_complete_calls() {
    if skipped() {
        return;
    }
    answer_elsewhere(with_peers()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_complete_calls_of_stored_sessions() {
    if skipped() {
        return;
    }
    let storage = Storage::single().await;
    answer_elsewhere(Setup { has_peers: true, ..storage.setup() }).await;
}

/// Rotates the keys under load, with questions while a key is added.
async fn rotate_keys(setup: Setup) {
    let rig = Rig::start(setup).await;
    let [old, other] = [&rig.replicas[0], &rig.replicas[1]].map(rotation::open);
    let (old, other) = tokio::join!(old, other);
    let before = Load::start(&rig).await;
    before.scripted.progress(RESULTS).await;
    let (answers, ()) = tokio::join!(questions(&rig), rotation::add_key(&rig));
    for answers in answers {
        assert_eq!((answers.elsewhere, answers.at_call), (25, 0));
    }
    rotation::until_new_key_seals(&rig, &old).await;
    let after = Load::start(&rig).await;
    let both = [&before, &after].map(|load| load.scripted.progress(RESULTS));
    join_all(both).await;
    let mut counts = Vec::from(before.counts(&rig).await);
    rotation::remove_key(&rig).await;
    after.scripted.progress(RESULTS).await;
    counts.extend(after.counts(&rig).await);
    for counts in &counts {
        assert_nothing_lost(counts);
        assert_marked_once(counts);
        assert!(counts.rejected.is_empty(), "{:?}", counts.rejected);
        assert_eq!(counts.broken, 0, "no replica was killed");
    }
    // Sessions of the removed key open at no replica that does not know them.
    for (session, replica) in [(&old, 1), (&old, 2), (&other, 0)] {
        let mut there = session.at(rig.replicas[replica].url());
        let reply = there.reply("ping", serde_json::json!({})).await.unwrap();
        assert_eq!(reply.status.as_u16(), 404, "{reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sealed_sessions_survive_rotation_of_keys() {
    if skipped() {
        return;
    }
    rotate_keys(with_peers()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_sessions_survive_rotation_of_keys() {
    if skipped() {
        return;
    }
    let storage = Storage::single().await;
    rotate_keys(Setup { has_peers: true, ..storage.setup() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_calls_are_retryable_only_if_repeatable() {
    if skipped() {
        return;
    }
    let mut rig = Rig::start(with_peers()).await;
    for (tool, response) in retry_lost_calls(&mut rig).await {
        let error = &response["error"];
        assert!(error["message"].as_str().unwrap().contains("lost with its replica"), "{error}");
        assert_eq!(error["data"]["retryable"], is_repeatable(tool), "{tool}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sealed_sessions_with_peers_survive_kills() {
    if skipped() {
        return;
    }
    let mut rig = Rig::start(with_peers()).await;
    let load = Load::start(&rig).await;
    load.kill_each(&mut rig).await;
    let counts = load.counts(&rig).await;
    for counts in &counts {
        assert_nothing_lost(counts);
        assert_marked_once(counts);
        assert!(counts.rejected.is_empty(), "{:?}", counts.rejected);
    }
}
