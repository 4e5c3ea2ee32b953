//! Scripted clients: each calls tools in turn until a stop signal, and repeats no call of a tool that acts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::Reply;
use vmcp_tests::round_robin::Balance;

use super::ledger::{TOOLS, is_repeatable};
use super::record::{Acknowledged, Broken, Record, Rejected};
use super::rig::Rig;

/// Mark of a new session of the backend.
const MARK: &str = "vmcp.dev/backendSession";

/// Time between two calls of a client.
const PAUSE: Duration = Duration::from_millis(50);

/// Timeout for progress of all clients.
const PROGRESS: Duration = Duration::from_mins(2);

/// Running clients.
pub(crate) struct Scripted {
    clients: Vec<JoinHandle<Record>>,
    is_over: Arc<AtomicBool>,
    /// Numbers of results of each client.
    results: Vec<Arc<AtomicUsize>>,
}

struct Client {
    name: String,
    is_stateful: bool,
    caller: Caller,
    record: Record,
    results: Arc<AtomicUsize>,
}

impl Scripted {
    /// Connects this many clients: half with a session, and half of each through each kind of balancing.
    pub(crate) async fn start(rig: &Rig, count: usize) -> Self {
        static LOADS: AtomicUsize = AtomicUsize::new(0);
        let load = LOADS.fetch_add(1, Ordering::Relaxed);
        let is_over = Arc::<AtomicBool>::default();
        let results: Vec<_> = (0..count).map(|_| Arc::<AtomicUsize>::default()).collect();
        let starting = results.iter().enumerate().map(async |(number, results)| {
            let balance =
                if number / 2 % 2 == 0 { Balance::PerConnection } else { Balance::PerRequest };
            let (url, is_stateful) = (rig.url(balance).await, number % 2 == 0);
            let caller = if is_stateful {
                Caller::stateful(&url).await.unwrap()
            } else {
                Caller::stateless(&url)
            };
            let record = Record { stateful: is_stateful, ..Record::default() };
            let (name, results) = (format!("{load}-{number}"), Arc::clone(results));
            Client { name, is_stateful, caller, record, results }
        });
        let clients = join_all(starting).await.into_iter();
        let clients =
            clients.map(|client| tokio::spawn(client.run(Arc::clone(&is_over)))).collect();
        Self { clients, is_over, results }
    }

    /// Waits until each client has this many more results.
    pub(crate) async fn progress(&self, more: usize) {
        let count = || self.results.iter().map(|count| count.load(Ordering::Relaxed));
        let goals: Vec<_> = count().map(|count| count + more).collect();
        let begun = Instant::now();
        while count().zip(&goals).any(|(count, goal)| count < *goal) {
            let late = count().zip(&goals).filter(|(count, goal)| count < *goal).count();
            assert!(begun.elapsed() < PROGRESS, "{late} clients make no progress");
            assert!(!self.clients.iter().any(JoinHandle::is_finished), "a client ended");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Lets each client finish its call, and returns the records.
    pub(crate) async fn stop(self) -> Vec<Record> {
        self.is_over.store(true, Ordering::Relaxed);
        join_all(self.clients).await.into_iter().map(Result::unwrap).collect()
    }
}

impl Client {
    async fn run(mut self, is_over: Arc<AtomicBool>) -> Record {
        for number in 0.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let tool = TOOLS[number % TOOLS.len()];
            let key = format!("{tool}-{}-{number}", self.name);
            let backend = if number % 2 == 0 { "stateful" } else { "stateless" };
            let tool = format!("{backend}_{tool}");
            while !self.call(&tool, &key).await && is_repeatable(&tool) {
                sleep(PAUSE).await;
            }
            sleep(PAUSE).await;
        }
        self.record
    }

    /// Returns `true` if the call has a result.
    async fn call(&mut self, tool: &str, key: &str) -> bool {
        let params = json!({ "name": tool, "arguments": { "key": key } });
        match self.caller.reply("tools/call", params).await {
            Ok(reply) => self.record(tool, key, &reply),
            Err(fault) if fault.to_string().contains("no answer") => {
                self.reject(tool, fault.to_string(), false);
                false
            }
            Err(_) => {
                self.record.broken.push(Broken { key: key.to_owned(), tool: tool.to_owned() });
                false
            }
        }
    }

    fn record(&mut self, tool: &str, key: &str, reply: &Reply) -> bool {
        let status = reply.status.as_u16();
        let message = reply.message().unwrap_or(Value::Null);
        self.record.ended |= self.is_stateful && status == 404;
        let result = &message["result"];
        let told = &result["structuredContent"];
        let (Some(returned), Some(number)) = (told["key"].as_str(), told["number"].as_u64()) else {
            let is_retryable = message["error"]["data"]["retryable"] == true;
            self.reject(tool, format!("{status}: {}", message["error"]["message"]), is_retryable);
            return false;
        };
        self.record.results.push(Acknowledged {
            key: key.to_owned(),
            returned: returned.to_owned(),
            session: told["session"].as_str().unwrap_or_default().to_owned(),
            number: usize::try_from(number).unwrap(),
            marked: !result["_meta"][MARK].is_null(),
        });
        self.results.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn reject(&mut self, tool: &str, message: String, retryable: bool) {
        self.record.rejected.push(Rejected { tool: tool.to_owned(), message, retryable });
    }
}
