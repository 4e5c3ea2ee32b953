//! Attributes of recorded spans, built at their end and for sampled spans only.
//!
//! Spans never contain the query of a URL or the arguments of a tool, which may contain secrets. A session id is
//! replaced by its hash, since knowing the id can suffice to take over the session.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use crate::metrics::{Outcome, names, target_attributes};
use http::header::{HOST, HeaderName, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Uri};
use opentelemetry::KeyValue;
use vmcp_core::{McpRequest, RequestContext};
use vmcp_wire::{Key, find, parse_json_string};

/// Maximum length of an attribute in bytes.
const MAX_VALUE: usize = 256;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// Response extension with the route template of a request, such as `/users/{id}`. The router inserts it for
/// [`Recorder::endpoint_layer`](crate::Recorder::endpoint_layer).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route(pub Arc<str>);

/// Parts of a request's head that its span needs.
#[derive(Debug)]
pub(crate) struct RequestHead {
    method: Method,
    uri: Uri,
    host: Option<HeaderValue>,
    agent: Option<HeaderValue>,
    session: Option<HeaderValue>,
}

/// Attributes with the names of the conventions and, if configured, legacy names.
pub(crate) struct Attributes {
    list: Vec<KeyValue>,
    legacy: bool,
}

impl RequestHead {
    pub(crate) fn new(method: &Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let header = |name| headers.get(name).cloned();
        Self {
            method: method.clone(),
            uri: uri.clone(),
            host: header(HOST),
            agent: header(USER_AGENT),
            session: header(SESSION_ID),
        }
    }
}

impl Attributes {
    pub(crate) fn new(legacy: bool) -> Self {
        Self { list: Vec::with_capacity(40), legacy }
    }

    fn add(&mut self, name: &'static str, legacy_name: &'static str, value: &str) {
        if value.is_empty() {
            return;
        }
        let value = truncate(value);
        if self.legacy && !legacy_name.is_empty() {
            self.list.push(KeyValue::new(legacy_name, value.clone()));
        }
        self.list.push(KeyValue::new(name, value));
    }

    fn number(&mut self, name: &'static str, legacy_name: &'static str, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        if self.legacy {
            self.list.push(KeyValue::new(legacy_name, value));
        }
        self.list.push(KeyValue::new(name, value));
    }

    pub(crate) fn finish(self) -> Vec<KeyValue> {
        self.list
    }

    /// Adds the request's head. The path is recorded for MCP requests only, for others the route template.
    pub(crate) fn head(&mut self, head: &RequestHead, is_mcp: bool, route: Option<&str>) {
        let RequestHead { method, uri, host, agent, session } = head;
        let host = host.as_ref().and_then(|host| host.to_str().ok());
        let host = host.or_else(|| uri.host()).unwrap_or_default();
        let scheme = uri.scheme_str().unwrap_or("http");
        self.add("http.request.method", "http.method", method.as_str());
        self.add("url.scheme", "http.scheme", scheme);
        let (address, port) = address_and_port(host);
        self.add("server.address", "", address);
        if let Some(port) = port {
            self.list.push(KeyValue::new("server.port", i64::from(port)));
        }
        if self.legacy {
            self.add("http.host", "", host);
        }
        self.add("http.route", "", route.unwrap_or_default());
        if is_mcp {
            self.add("url.path", "http.target", uri.path());
            self.add("url.full", "http.url", &format!("{scheme}://{host}{}", uri.path()));
        }
        if let Some(agent) = agent {
            let agent = String::from_utf8_lossy(agent.as_bytes());
            self.add("user_agent.original", "http.user_agent", &agent);
        }
        if let Some(session) = session {
            let mut hasher = DefaultHasher::new();
            session.as_bytes().hash(&mut hasher);
            self.add("mcp.session.id", "", &format!("hash:{:016x}", hasher.finish()));
        }
    }

    /// Adds the operation.
    pub(crate) fn operation(
        &mut self,
        method: &'static str,
        name: Option<&str>,
        outcome: &Outcome,
    ) {
        self.add("mcp.method.name", "mcp.method", method);
        if !method.is_empty() {
            self.add("rpc.system.name", "rpc.system", "jsonrpc");
            self.add("jsonrpc.protocol.version", "", "2.0");
        }
        self.list.extend(target_attributes(method, name));
        if self.legacy {
            self.list.push(KeyValue::new("rpc.service", "mcp"));
            self.list.push(KeyValue::new("mcp.transport", "streamable-http"));
            let legacy_name = match method {
                "tools/call" => Some("mcp.tool.name"),
                "prompts/get" => Some("mcp.prompt.name"),
                _ => None,
            };
            let pair = legacy_name.zip(name);
            self.list.extend(pair.map(|(key, name)| KeyValue::new(key, name.to_owned())));
            self.list.extend(name.map(|name| KeyValue::new("mcp.resource.id", name.to_owned())));
        }
        self.add("network.transport", "", "tcp");
        self.add("network.protocol.name", "", "http");
        self.add("network.protocol.version", "", outcome.http_version);
        self.add("mcp.protocol.version", "", outcome.protocol_version);
    }

    /// Adds further facts about the message.
    pub(crate) fn message(&mut self, message: &McpRequest) {
        self.number(
            "http.request.body.size",
            "http.request_content_length",
            message.bytes.len() as u64,
        );
        if let Some(id) = message.id() {
            self.add("jsonrpc.request.id", "mcp.request.id", &String::from_utf8_lossy(id));
        }
        if let Some(uri) = message.text(Key::Uri) {
            self.add("mcp.resource.uri", "", &uri.read(&message.bytes));
        }
        let meta = |key| find(message.param(Key::Meta)?, key);
        let client =
            message.param(Key::ClientInfo).or_else(|| meta("io.modelcontextprotocol/clientInfo"));
        if let Some(name) =
            client.and_then(|client| find(client, "name")).and_then(parse_json_string)
        {
            self.add("mcp.client.name", "", &name);
        }
    }

    /// Adds the facts that inner layers recorded.
    pub(crate) fn request_context(&mut self, server: &str, request_context: &RequestContext) {
        self.add("mcp.server.name", "", server);
        if let Some(backend) = request_context.backend() {
            self.add(names::BACKEND, "target.workload_name", backend.name());
        }
        if let Some(identity) = request_context.identity() {
            let is_authenticated = identity.subject().is_some();
            self.list.push(KeyValue::new("auth.authenticated", is_authenticated));
        }
    }

    /// Adds the backend. `action` is the legacy name of the method.
    pub(crate) fn backend(
        &mut self,
        backend: &str,
        legacy_action: &'static str,
        http_method: &str,
    ) {
        self.add("http.request.method", "http.method", http_method);
        self.add(names::BACKEND, "target.workload_name", backend);
        if self.legacy {
            self.add("action", "", legacy_action);
        }
    }

    /// Adds the result. `size` is that of the response body in bytes.
    pub(crate) fn outcome(&mut self, outcome: &Outcome, size: u64, duration: Duration) {
        if outcome.status != 0 {
            let status = u64::from(outcome.status);
            self.number("http.response.status_code", "http.status_code", status);
        }
        self.number("http.response.body.size", "http.response_content_length", size);
        if let Some(error) = outcome.error_type.label() {
            self.add("error.type", "", &error);
        }
        if self.legacy {
            self.list.push(KeyValue::new("http.duration_ms", duration.as_secs_f64() * 1000.0));
        }
    }
}

pub(crate) fn truncate(value: &str) -> String {
    if value.len() <= MAX_VALUE {
        return value.to_owned();
    }
    match value.char_indices().find(|(at, char)| at + char.len_utf8() > MAX_VALUE) {
        Some((at, _)) => format!("{}...", &value[..at]),
        None => value.to_owned(),
    }
}

/// Splits a host into name or address, an IPv6 address without brackets, and port.
fn address_and_port(host: &str) -> (&str, Option<u16>) {
    let (address, rest) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or((rest, "")),
        None => host.split_once(':').map_or((host, ""), |(name, _)| (name, &host[name.len()..])),
    };
    (address, rest.strip_prefix(':').and_then(|port| port.parse().ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_port_from_address() {
        for (host, expected) in [
            ("gateway", ("gateway", None)),
            ("gateway:4483", ("gateway", Some(4483))),
            ("[::1]:4483", ("::1", Some(4483))),
            ("[::1]", ("::1", None)),
            ("gateway:http", ("gateway", None)),
            ("", ("", None)),
        ] {
            assert_eq!(address_and_port(host), expected, "{host}");
        }
    }
}
