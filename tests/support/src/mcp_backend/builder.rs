//! Builder of a fake server.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::catalog::{Catalog, tool};
use super::state::{Handler, Settings, State};
use super::{Behavior, McpBackend, PendingRequest, Protocol, SessionLoss};

/// Builder of an [`McpBackend`].
#[must_use = "a builder starts nothing by itself"]
pub struct McpBackendBuilder {
    settings: Settings,
    catalog: Catalog,
    methods: BTreeMap<String, Handler>,
    tools: BTreeMap<String, Handler>,
    behavior: Behavior,
    port: u16,
}

impl fmt::Debug for McpBackendBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpBackendBuilder")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl McpBackendBuilder {
    /// Creates a builder of a server with this protocol, without tools.
    pub(super) fn new(protocol: Protocol) -> Self {
        let settings = Settings {
            name: "fake".to_owned(),
            protocol,
            capabilities: json!({"tools": {}}),
            instructions: None,
            has_streams: false,
            page_size: usize::MAX,
            endpoint: None,
            is_truncated: false,
            headers: HeaderMap::new(),
        };
        let (methods, tools) = (BTreeMap::new(), BTreeMap::new());
        let behavior = Behavior::Normal;
        Self { settings, catalog: Catalog::default(), methods, tools, behavior, port: 0 }
    }

    /// Sets another protocol.
    pub fn protocol(mut self, protocol: impl Into<Protocol>) -> Self {
        self.settings.protocol = protocol.into();
        self
    }

    /// Sets the response behavior.
    pub fn behavior(mut self, behavior: Behavior) -> Self {
        self.behavior = behavior;
        self
    }

    /// Sets the name in `serverInfo`, which is also the prefix of session ids.
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.settings.name);
        self
    }

    /// Lists tools of these names, without arguments.
    pub fn tools(self, names: &[&str]) -> Self {
        self.items("tools", names.iter().map(|name| tool(name)))
    }

    /// Lists tools of these names to stateful clients.
    pub fn stateful_tools(mut self, names: &[&str]) -> Self {
        self.catalog.set_stateful_tools(names.iter().map(|name| tool(name)).collect());
        self
    }

    /// Lists these items, given as JSON definitions that are sent unchanged. `member` is that of the list's result:
    /// `tools`, `prompts`, `resources` or `resourceTemplates`.
    pub fn items(mut self, member: &str, items: impl IntoIterator<Item = String>) -> Self {
        self.catalog.set(member, items.into_iter().collect());
        self
    }

    /// Lists items in pages of this size.
    pub fn page_size(mut self, page_size: usize) -> Self {
        self.settings.page_size = page_size;
        self
    }

    /// Sets the capabilities. The default is tools without change notifications.
    pub fn capabilities(mut self, capabilities: Value) -> Self {
        self.settings.capabilities = capabilities;
        self
    }

    /// Sets the instructions.
    pub fn instructions(mut self, instructions: &str) -> Self {
        self.settings.instructions = Some(instructions.to_owned());
        self
    }

    /// Offers notification streams. HTTP+SSE always has one.
    pub fn notification_streams(mut self) -> Self {
        self.settings.has_streams = true;
        self
    }

    /// Adds a header to each response.
    pub fn response_header(mut self, name: &'static str, value: &'static str) -> Self {
        let name = HeaderName::from_static(name);
        self.settings.headers.append(name, HeaderValue::from_static(value));
        self
    }

    /// Breaks off lists and results in the middle.
    pub fn truncated(mut self) -> Self {
        self.settings.is_truncated = true;
        self
    }

    /// Sets the URL for messages that HTTP+SSE announces.
    pub fn endpoint(mut self, endpoint: &str) -> Self {
        self.settings.endpoint = Some(endpoint.to_owned());
        self
    }

    /// Handles requests with this method.
    pub fn on(
        mut self,
        method: &str,
        handler: impl Fn(PendingRequest) + Send + Sync + 'static,
    ) -> Self {
        self.methods.insert(method.to_owned(), Arc::new(handler));
        self
    }

    /// Handles calls of this tool.
    pub fn on_tool(
        mut self,
        tool: &str,
        handler: impl Fn(PendingRequest) + Send + Sync + 'static,
    ) -> Self {
        self.tools.insert(tool.to_owned(), Arc::new(handler));
        self
    }

    /// Sets the port.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Starts the server on loopback, by default at a free port.
    ///
    /// # Errors
    /// Returns an error if the port is in use.
    pub fn try_start(self) -> io::Result<McpBackend> {
        let port = self.port;
        let mut backend = self.build();
        backend.listen(port)?;
        Ok(backend)
    }

    /// Starts the server on loopback, by default at a free port.
    ///
    /// # Panics
    /// Panics if the port is in use.
    #[must_use]
    pub fn start(self) -> McpBackend {
        self.try_start().expect("a port of loopback is free")
    }

    /// Returns the server without a socket, for [`McpBackend::handle`].
    #[must_use]
    pub fn build(self) -> McpBackend {
        let Self { settings, catalog, methods, tools, behavior, port: _ } = self;
        McpBackend::new(State {
            settings,
            catalog: Mutex::new(catalog),
            methods: Mutex::new(methods),
            tools: Mutex::new(tools),
            requests: Mutex::default(),
            behavior: watch::Sender::new(behavior),
            rejected: Mutex::default(),
            sessions: Mutex::default(),
            ended: Mutex::default(),
            loss: Mutex::new(SessionLoss::NotFound),
            streams: Mutex::default(),
            serial: 0.into(),
            in_flight: Arc::default(),
        })
    }
}
