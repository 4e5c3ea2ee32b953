//! Random actions of clients, operators and the network.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::{Map, Value, json};
use tokio::time::sleep;
use vmcp_aggregate::settings::BackendSettings;
use vmcp_core::{Body, Generation};

use super::{Random, SharedLedger, Simulation, answers, give_up, note_answer};
use crate::script::{ScriptedClient, messages, text};

/// Maximum number of concurrent clients.
const CLIENTS: usize = 6;

/// Client request in flight.
struct Request {
    client: ScriptedClient,
    number: u64,
    backend: &'static str,
    random: Random,
    ledger: SharedLedger,
}

impl Simulation {
    /// Performs one random action.
    pub(crate) async fn step(&mut self) {
        self.open.retain(|(number, task)| number.is_some() || !task.is_finished());
        match self.random.below(25) {
            0..=2 => self.come().await,
            3..=8 => self.call(),
            9 => self.cancel().await,
            10 => self.disconnect(),
            11 | 12 => self.listen().await,
            13 | 14 => self.subscribe(),
            15 => self.set_level(),
            16 => self.leave().await,
            17..=21 if self.is_calm => {}
            17 | 18 => self.change_configuration().await,
            19 | 20 => self.break_backend(),
            21 => self.change_offer(),
            22 => self.vanish(),
            _ => {}
        }
        let pause = self.random.time();
        sleep(pause).await;
    }

    fn note(&mut self, event: impl Into<String>) {
        self.history.push(event.into());
    }

    fn client(&mut self) -> Option<ScriptedClient> {
        let count = self.clients.len();
        (count > 0).then(|| self.clients[self.random.below(count)].clone())
    }

    fn session(&mut self) -> Option<ScriptedClient> {
        self.client().filter(|client| client.session.is_some())
    }

    async fn come(&mut self) {
        if self.clients.len() >= CLIENTS {
            return;
        }
        let stateful = self.random.one_in(2);
        let generation = if stateful { Generation::Stateful } else { Generation::Stateless };
        let subject = ["alice", "bob"][self.random.below(2)];
        self.note(format!("{subject} comes, {generation:?}"));
        self.clients.push(ScriptedClient::new(&self.gateway, generation, subject).await);
    }

    fn call(&mut self) {
        let Some(client) = self.client() else { return };
        self.serial += 1;
        let number = self.serial;
        let backend = ["a", "b", "c"][self.random.below(3)];
        self.note(format!("call {number} of {backend}, {:?}", client.generation));
        self.ledger.lock().unwrap().requests.entry(number).or_default();
        let (random, ledger) = (self.random.fork(), self.ledger.clone());
        let request = Request { client, number, backend, random, ledger };
        self.open.push((Some(number), tokio::spawn(request.run())));
    }

    async fn cancel(&mut self) {
        let (Some(client), true) = (self.session(), self.serial > 0) else { return };
        let newest = self.serial;
        let number = newest - (self.random.next() % newest.min(8));
        self.note(format!("cancel {number}"));
        give_up(&self.ledger, number);
        client.notify("notifications/cancelled", json!({"requestId": number})).await;
    }

    /// Breaks a random connection.
    fn disconnect(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let index = self.random.below(self.open.len());
        let (number, task) = self.open.swap_remove(index);
        self.note(format!("disconnect {number:?}"));
        if let Some(number) = number {
            give_up(&self.ledger, number);
        }
        task.abort();
    }

    /// Removes a client permanently without a message, and closes some of its connections.
    fn vanish(&mut self) {
        let Some(client) = self.client() else { return };
        self.note(format!("{} vanishes", client.identity.subject().unwrap_or_default()));
        let is_other = |known: &ScriptedClient| {
            known.session != client.session || known.identity != client.identity
        };
        self.clients.retain(is_other);
        for _ in 0..self.open.len() / 2 {
            self.disconnect();
        }
    }

    async fn listen(&mut self) {
        let Some(client) = self.client() else { return };
        self.note(format!("listen, {:?}", client.generation));
        let response = if client.session.is_some() {
            client.stand(None).await
        } else {
            let filter =
                json!({"toolsListChanged": true, "resourceSubscriptions": ["x://a", "x://c"]});
            let params = json!({"notifications": filter});
            client.request(&json!("l"), "subscriptions/listen", params).await
        };
        let mut random = self.random.fork();
        let task = tokio::spawn(async move {
            let mut body = response.into_body();
            while let Some(frame) = body.frame().await {
                let frame = frame.unwrap().into_data().unwrap();
                for message in messages(&String::from_utf8_lossy(&frame)) {
                    reply(&client, &message, &mut random);
                }
            }
        });
        self.open.push((None, task));
    }

    fn subscribe(&mut self) {
        let Some(client) = self.session() else { return };
        let uri = ["x://a", "x://b", "x://c"][self.random.below(3)];
        let methods = ["resources/subscribe", "resources/unsubscribe"];
        let method = methods[usize::from(self.random.one_in(3))];
        self.note(format!("{method} {uri}"));
        self.beside(async move {
            client.request(&json!("s"), method, json!({"uri": uri})).await;
        });
    }

    fn set_level(&mut self) {
        let Some(client) = self.session() else { return };
        let level = ["debug", "error"][self.random.below(2)];
        self.note(format!("level {level}"));
        self.beside(async move {
            client.request(&json!("v"), "logging/setLevel", json!({"level": level})).await;
        });
    }

    /// Starts a task without awaiting it.
    fn beside(&mut self, doing: impl Future<Output = ()> + Send + 'static) {
        self.open.push((None, tokio::spawn(doing)));
    }

    async fn leave(&mut self) {
        let Some(client) = self.session() else { return };
        self.note("leave");
        self.clients.retain(|known| known.session != client.session);
        // Its pending requests may or may not receive responses.
        let ledger = self.ledger.clone();
        let open = self.open.iter().filter_map(|(number, _)| *number);
        open.for_each(|number| give_up(&ledger, number));
        client.leave().await;
    }

    async fn change_configuration(&mut self) {
        let kind = self.random.below(4);
        let index = self.random.below(self.backends.len());
        self.note(format!("reload {kind} of {index}"));
        let serial = self.random.next();
        let all = self.backends.iter().enumerate();
        let all = all.filter(|(at, _)| kind != 0 || *at != index);
        let change = |(at, settings): (usize, BackendSettings)| match kind {
            1 if at == index => BackendSettings { fingerprint: serial, ..settings },
            2 if at == index => BackendSettings { service_revision: serial, ..settings },
            _ => settings,
        };
        let all = all.map(|(at, backend)| change((at, backend.settings(None)))).collect();
        self.reload(all).await;
    }

    fn break_backend(&mut self) {
        let index = self.random.below(self.backends.len());
        let kind = self.random.below(4);
        self.note(format!("fault {kind} of {index}"));
        let backend = &self.backends[index];
        match kind {
            0 | 1 => _ = backend.is_away.fetch_not(Ordering::Relaxed),
            2 => backend.forget_sessions(),
            _ => backend.cut_streams(),
        }
    }

    fn change_offer(&mut self) {
        let index = self.random.below(self.backends.len());
        let name = format!("n{}", self.random.below(1000));
        self.note(format!("offer {name} at {index}"));
        let backend = &self.backends[index];
        backend.offer.lock().unwrap()["tools"].as_array_mut().unwrap().push(json!({"name": name}));
        backend.announce(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    }
}

impl Request {
    async fn run(mut self) {
        let mut params = json!({"name": format!("{}_t", self.backend),
            "arguments": {"number": self.number}, "_meta": {"progressToken": self.number}});
        for _ in 0..4 {
            let id = json!(self.number);
            let response = self.client.request(&id, "tools/call", params.clone()).await;
            let Some(answer) = self.read(response.into_body(), &id).await else { return };
            if answer["result"]["resultType"] != "input_required" {
                let number = &answer["result"]["structuredContent"]["number"];
                assert!(answer["result"].is_null() || *number == self.number, "{answer}");
                return note_answer(&self.ledger, self.number);
            }
            if self.random.one_in(5) {
                return give_up(&self.ledger, self.number);
            }
            sleep(self.random.time()).await;
            let asked = answer["result"]["inputRequests"].as_object().unwrap();
            let given = |key: &String| (key.clone(), json!({"action": "accept"}));
            let responses: Map<String, Value> = asked.keys().map(given).collect();
            params["inputResponses"] = responses.into();
            params["requestState"] = answer["result"]["requestState"].clone();
        }
        give_up(&self.ledger, self.number);
    }

    /// Reads up to the response, and responds to server requests that precede it.
    async fn read(&mut self, mut body: Body, id: &Value) -> Option<Value> {
        let (mut said, mut found) = (String::new(), None);
        while let Some(frame) = body.frame().await {
            let frame = frame.unwrap().into_data().unwrap();
            said += &String::from_utf8_lossy(&frame);
            if !said.starts_with('{') {
                let last = said.lines().filter_map(|line| line.strip_prefix("id: ")).next_back();
                let last = last.map(str::to_owned).filter(|_| self.random.one_in(8));
                for message in messages(&std::mem::take(&mut said)) {
                    self.take(&mut found, message, id);
                }
                // The connection broke; the client resumes the stream.
                if let Some(last) = last {
                    drop(body);
                    sleep(self.random.time()).await;
                    let response = self.client.stand(Some(&last)).await;
                    if response.status() != 200 {
                        give_up(&self.ledger, self.number);
                        return found;
                    }
                    body = response.into_body();
                }
            }
        }
        if !said.is_empty() {
            self.take(&mut found, serde_json::from_str(&said).unwrap(), id);
        }
        if found.is_none() {
            // The ledger verifies that the missing response is permitted.
            sleep(Duration::from_millis(1)).await;
        }
        found
    }

    fn take(&mut self, found: &mut Option<Value>, message: Value, id: &Value) {
        if !answers(&message, id) {
            return reply(&self.client, &message, &mut self.random);
        }
        assert!(found.is_none(), "a second answer: {message}");
        *found = Some(message);
    }
}

/// Responds to a server request, unless the user is busy.
fn reply(client: &ScriptedClient, message: &Value, random: &mut Random) {
    if message["method"] != "elicitation/create" || random.one_in(6) {
        return;
    }
    let (client, id, thinks) = (client.clone(), message["id"].clone(), random.time());
    tokio::spawn(async move {
        sleep(thinks).await;
        let response = client.reply(&id, json!({"action": "accept"})).await;
        text(response.into_body()).await;
    });
}
