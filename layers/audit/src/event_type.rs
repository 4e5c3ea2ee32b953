//! Types of events, outcomes, and the filter for events.

use std::str::FromStr;

/// Declares an enum with the name and description of each variant.
macro_rules! define_named_enum {
    ($enum:ident $about:literal $($variant:ident $name:literal $doc:literal,)*) => {
        #[doc = $about]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $enum {
            $(#[doc = $doc] $variant,)*
        }

        impl $enum {
            /// All variants.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name in events and in the configuration.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

define_named_enum! {
    EventType "Type of an event. An [`EventFilter`] selects events by type."
    Initialize "mcp_initialize" "`initialize`.",
    ToolCall "mcp_tool_call" "`tools/call`.",
    ToolsList "mcp_tools_list" "`tools/list`.",
    ResourceRead "mcp_resource_read" "`resources/read`.",
    ResourcesList "mcp_resources_list" "`resources/list`.",
    PromptGet "mcp_prompt_get" "`prompts/get`.",
    PromptsList "mcp_prompts_list" "`prompts/list`.",
    Notification "mcp_notification" "A notification without a type of its own.",
    Ping "mcp_ping" "`ping`.",
    Logging "mcp_logging" "`logging/setLevel`.",
    Completion "mcp_completion" "`completion/complete`.",
    RootsListChanged "mcp_roots_list_changed" "`notifications/roots/list_changed`.",
    Request "mcp_request" "Any other MCP message.",
    HttpRequest "http_request" "An HTTP request that was not decoded as a message.",
    SseConnection "sse_connection" "A stream for server messages, recorded once, when it opens.",
    WorkflowStarted "vmcp_workflow_started" "A composite tool started.",
    WorkflowCompleted "vmcp_workflow_completed" "A composite tool completed.",
    WorkflowFailed "vmcp_workflow_failed" "A composite tool failed.",
    WorkflowTimedOut "vmcp_workflow_timed_out" "A composite tool timed out.",
    WorkflowStepStarted "vmcp_workflow_step_started" "A step of a composite tool started.",
    WorkflowStepCompleted "vmcp_workflow_step_completed" "A step completed.",
    WorkflowStepFailed "vmcp_workflow_step_failed" "A step failed.",
    WorkflowStepSkipped "vmcp_workflow_step_skipped" "A step was skipped.",
    LoginStarted "vmcp_login_started" "A client started a login at the authorization server.",
    LoginCompleted "vmcp_login_completed" "A user logged in, and the client received a code.",
    LoginFailed "vmcp_login_failed" "A login was rejected or abandoned.",
    ConsentGiven "vmcp_consent_given" "A user consented to the request of a client.",
    ConsentDenied "vmcp_consent_denied" "A user denied consent.",
    TokenIssued "vmcp_token_issued" "A client redeemed a code.",
    TokenRefreshed "vmcp_token_refreshed" "A client refreshed its tokens.",
    TokenRefused "vmcp_token_refused" "A token, revocation or introspection request was rejected.",
    TokenReused "vmcp_token_reused" "A code or refresh token was presented again; its tokens are revoked.",
    TokenRevoked "vmcp_token_revoked" "A client or a user ended a session.",
    ClientRegistered "vmcp_client_registered" "A client registered.",
    ClientRefused "vmcp_client_refused" "A registration was rejected.",
    UpstreamLinked "vmcp_upstream_linked" "Tokens of an identity provider were stored for a user.",
    UpstreamUnlinked "vmcp_upstream_unlinked" "A user removed them.",
    UpstreamLost "vmcp_upstream_lost" "An identity provider no longer refreshes them.",
}

define_named_enum! {
    Outcome "Result of an operation."
    Success "success" "The response is a result.",
    Denied "denied" "The caller was not authenticated or not authorized.",
    Failure "failure" "The request was invalid (another 4xx), or the client left before the response.",
    Error "error" "The gateway or a backend failed (5xx), or the response was truncated.",
    ApplicationError "application_error" "The response is a JSON-RPC error or a tool error, in a 2xx.",
}

/// The error of an unknown event type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown event type {found:?}; the types are {}", names())]
pub struct UnknownEventTypeError {
    /// The unknown name, truncated to 64 characters.
    pub found: Box<str>,
}

/// Set of event types to record (`eventTypes`, `excludeEventTypes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventFilter(u64);

// === impl EventType ===

impl EventType {
    /// Returns the type of the events of an MCP method.
    #[must_use]
    pub fn from_method(method: &str) -> Self {
        match method {
            "initialize" => Self::Initialize,
            "tools/call" => Self::ToolCall,
            "tools/list" => Self::ToolsList,
            "resources/read" => Self::ResourceRead,
            "resources/list" => Self::ResourcesList,
            "prompts/get" => Self::PromptGet,
            "prompts/list" => Self::PromptsList,
            "ping" => Self::Ping,
            "logging/setLevel" => Self::Logging,
            "completion/complete" => Self::Completion,
            "notifications/roots/list_changed" => Self::RootsListChanged,
            _ if method.starts_with("notifications/") => Self::Notification,
            _ => Self::Request,
        }
    }

    /// Returns `true` for events of the authorization server.
    #[must_use]
    pub const fn is_auth_server_event(self) -> bool {
        self as u8 >= Self::LoginStarted as u8
    }

    const fn bit(self) -> u64 {
        1 << self as u8
    }
}

impl FromStr for EventType {
    type Err = UnknownEventTypeError;

    fn from_str(name: &str) -> Result<Self, UnknownEventTypeError> {
        let known = Self::ALL.iter().copied().find(|kind| kind.name() == name);
        known.ok_or_else(|| UnknownEventTypeError { found: name.chars().take(64).collect() })
    }
}

/// Returns all names, separated by commas.
fn names() -> String {
    EventType::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

// === impl EventFilter ===

impl EventFilter {
    /// All types.
    pub const ALL: Self = Self(u64::MAX);

    /// Creates a filter for the types in `only`, or all if empty, without those in `except`.
    #[must_use]
    pub fn new(only: &[EventType], except: &[EventType]) -> Self {
        let bits = |kinds: &[EventType]| kinds.iter().fold(0, |bits, kind| bits | kind.bit());
        let selected = if only.is_empty() { u64::MAX } else { bits(only) };
        Self(selected & !bits(except))
    }

    /// Returns `true` if events of this type are recorded.
    #[must_use]
    pub const fn contains(self, kind: EventType) -> bool {
        self.0 & kind.bit() != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_parses_from_its_name() {
        for kind in EventType::ALL {
            assert_eq!(kind.name().parse(), Ok(*kind));
            assert!(EventFilter::new(&[*kind], &[]).contains(*kind));
            assert!(!EventFilter::new(&[], &[*kind]).contains(*kind));
        }
    }

    #[test]
    fn distinguishes_auth_server_events() {
        let others = |kind: &&EventType| {
            ["mcp_", "http_", "sse_", "vmcp_workflow_"]
                .iter()
                .any(|start| kind.name().starts_with(start))
        };
        assert_eq!(EventType::ALL.iter().filter(others).count(), 23);
        assert!(EventType::ALL.iter().all(|kind| kind.is_auth_server_event() != others(&kind)));
        assert!(EventType::ALL.len() <= 64, "one bit each");
    }

    #[test]
    fn unknown_type_error_lists_known_types() {
        let error = "mcp_tool".parse::<EventType>().unwrap_err().to_string();
        assert!(error.starts_with("unknown event type \"mcp_tool\""), "{error}");
        for kind in EventType::ALL {
            assert!(error.contains(kind.name()), "{error}");
        }
        let long = "x".repeat(9999).parse::<EventType>().unwrap_err();
        assert_eq!(long.found.len(), 64);
    }

    #[test]
    fn exclusion_takes_precedence() {
        let both = EventFilter::new(
            &[EventType::ToolCall, EventType::Ping],
            &[EventType::Ping, EventType::Request],
        );
        let written = EventType::ALL.iter().filter(|kind| both.contains(**kind));
        assert!(written.eq(&[EventType::ToolCall]));
    }
}
