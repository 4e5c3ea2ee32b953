//! Three replicas behind a load balancer without affinity, each killed in turn under load and replaced.

mod ledger;
mod record;
mod rig;
mod scripted;

use std::env;

use futures_util::future::join_all;
use vmcp_tests::counterparts::{Client, ClientLoad, Era, skipped};
use vmcp_tests::round_robin::Balance;

use self::record::{Counts, Record};
use self::rig::{Rig, Setup};
use self::scripted::Scripted;

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
            ClientLoad::start(client, &rig.front.url(balance), era, sdks / 4).await.unwrap()
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
    assert_eq!((counts.unmarked, counts.marked_again), (0, 0), "wrong marks");
    assert_eq!(counts.retryable, 0, "a call that may have acted is called retryable");
}

#[tokio::test(flavor = "multi_thread")]
async fn sealed_sessions_survive_killed_replicas() {
    if skipped() {
        return;
    }
    let mut rig = Rig::start(Setup::default()).await;
    let load = Load::start(&rig).await;
    load.kill_each(&mut rig).await;
    let counts = load.counts(&rig).await;
    for counts in &counts {
        assert_nothing_lost(counts);
        assert!(counts.rejected.is_empty(), "{:?}", counts.rejected);
        assert!(counts.marked > 0, "no session of the backend was lost");
    }
    assert!(counts[0].broken > 0, "no call was in flight");
}
