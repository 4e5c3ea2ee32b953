//! A conforming server with scripted behavior.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::state::{Forgetting, Manners, Offer, State, lock};
use super::{HttpListener, conforming_responses};
use crate::counterparts::TestError;
use crate::fixture::Generation;

/// Tools of every [`ConformingServer`] server.
///
/// `echo` returns the request, `slow` responds after `ms`, `stream` also sends progress and, before it, `flood` log
/// messages, `ask` sends a request to the client.
const TOOLS: [&str; 4] = ["echo", "slow", "stream", "ask"];

/// A running server.
#[derive(Debug)]
pub struct ConformingServer {
    state: Arc<State>,
    listening: HttpListener,
}

/// Builder of a server.
#[derive(Debug, Clone)]
pub struct Setup {
    manners: Manners,
    offer: Offer,
    port: u16,
}

impl ConformingServer {
    /// Returns a builder of a server with both generations and the tools `echo`, `slow`, `stream` and `ask`.
    #[must_use]
    pub fn named(name: &str) -> Setup {
        let tool = |name| json!({ "name": name, "inputSchema": { "type": "object" } }).to_string();
        let manners = Manners {
            name: name.to_owned(),
            generation: Generation::Both,
            late: Duration::ZERO,
            breaking_off: false,
            page: usize::MAX,
            instructions: None,
        };
        let offer = Offer { tools: TOOLS.map(tool).into(), ..Offer::default() };
        Setup { manners, offer, port: 0 }
    }

    /// Returns the URL of its MCP endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        self.listening.url()
    }

    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.manners.name
    }

    /// Returns its port, for a server that replaces it.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.listening.port()
    }

    /// Closes its connections and waits until its port is free.
    pub async fn stop(self) {
        self.listening.stop().await;
    }

    /// Returns the number of open sessions.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.state.sessions()
    }

    /// Returns the sessions that were ended by `DELETE`.
    #[must_use]
    pub fn ended(&self) -> Vec<String> {
        lock(&self.state.ended).clone()
    }

    /// Returns the number of requests with this method.
    #[must_use]
    pub fn count(&self, method: &str) -> u64 {
        lock(&self.state.counts).get(method).copied().unwrap_or_default()
    }

    /// Returns the last `tools/call`, unchanged.
    #[must_use]
    pub fn last_call(&self) -> String {
        String::from_utf8_lossy(&lock(&self.state.last_call)).into_owned()
    }

    /// Forgets every session, as after a restart, and rejects unknown sessions in this way.
    pub fn forget(&self, how: Forgetting) {
        self.state.forget(how);
    }

    /// Adds a tool and notifies clients.
    pub fn add_tool(&self, name: &str) {
        let tool = json!({ "name": name, "inputSchema": { "type": "object" } });
        lock(&self.state.offer).tools.push(tool.to_string());
        // Sending without receivers is not an error.
        _ = self.state.changes.send("notifications/tools/list_changed");
    }
}

impl Setup {
    /// Restricts the server to this generation.
    #[must_use]
    pub fn speaking(mut self, generation: Generation) -> Self {
        self.manners.generation = generation;
        self
    }

    /// Delays every response.
    #[must_use]
    pub fn late(mut self, late: Duration) -> Self {
        self.manners.late = late;
        self
    }

    /// Breaks off in the middle of lists and results.
    #[must_use]
    pub fn breaking_off(mut self) -> Self {
        self.manners.breaking_off = true;
        self
    }

    /// Sets the instructions.
    #[must_use]
    pub fn saying(mut self, instructions: &str) -> Self {
        self.manners.instructions = Some(instructions.to_owned());
        self
    }

    /// Offers only these tools, given as JSON definitions, in pages of `page`.
    #[must_use]
    pub fn tools(mut self, tools: impl IntoIterator<Item = String>, page: usize) -> Self {
        self.offer.tools = tools.into_iter().collect();
        self.manners.page = page;
        self
    }

    /// Offers these prompts, given as JSON definitions.
    #[must_use]
    pub fn prompts(mut self, prompts: impl IntoIterator<Item = String>) -> Self {
        self.offer.prompts = prompts.into_iter().collect();
        self
    }

    /// Offers these resources and resource templates, given as JSON definitions.
    #[must_use]
    pub fn resources(
        mut self,
        resources: impl IntoIterator<Item = String>,
        templates: impl IntoIterator<Item = String>,
    ) -> Self {
        self.offer.resources = resources.into_iter().collect();
        self.offer.templates = templates.into_iter().collect();
        self
    }

    /// Sets the port.
    #[must_use]
    pub fn at(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Starts the server.
    ///
    /// # Errors
    /// Returns an error if the port is in use.
    pub fn start(self) -> Result<ConformingServer, TestError> {
        let Self { manners, offer, port } = self;
        let state = Arc::new(State::new(manners, offer));
        let behind = Arc::clone(&state);
        let listening = HttpListener::start(port, move |request| {
            conforming_responses::answer(Arc::clone(&behind), request)
        })?;
        Ok(ConformingServer { state, listening })
    }
}
