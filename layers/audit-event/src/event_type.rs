//! What an event is about, how the operation ended, and which events are wanted.

use std::str::FromStr;

/// Declares an enum once: variant, name and meaning stay together.
macro_rules! define_named_enum {
    ($enum:ident $about:literal $($variant:ident $name:literal $doc:literal,)*) => {
        #[doc = $about]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $enum {
            $(#[doc = $doc] $variant,)*
        }

        impl $enum {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Its name in events and in the configuration.
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
    EventType "What an event is about. Each that is ever made can be named in a [`Selection`]."
    Initialize "mcp_initialize" "`initialize`.",
    ToolCall "mcp_tool_call" "`tools/call`.",
    ToolsList "mcp_tools_list" "`tools/list`.",
    ResourceRead "mcp_resource_read" "`resources/read`.",
    ResourcesList "mcp_resources_list" "`resources/list`.",
    PromptGet "mcp_prompt_get" "`prompts/get`.",
    PromptsList "mcp_prompts_list" "`prompts/list`.",
    Notification "mcp_notification" "A notification that has no type of its own.",
    Ping "mcp_ping" "`ping`.",
    Logging "mcp_logging" "`logging/setLevel`.",
    Completion "mcp_completion" "`completion/complete`.",
    RootsListChanged "mcp_roots_list_changed" "`notifications/roots/list_changed`.",
    Request "mcp_request" "Any other MCP message.",
    HttpRequest "http_request" "An HTTP request that did not get as far as being read as a message.",
    SseConnection "sse_connection" "A stream on which the server speaks, logged once, when it opens.",
    WorkflowStarted "vmcp_workflow_started" "A composite tool began.",
    WorkflowCompleted "vmcp_workflow_completed" "A composite tool ended well.",
    WorkflowFailed "vmcp_workflow_failed" "A composite tool failed.",
    WorkflowTimedOut "vmcp_workflow_timed_out" "A composite tool took too long.",
    WorkflowStepStarted "vmcp_workflow_step_started" "A step of a composite tool began.",
    WorkflowStepCompleted "vmcp_workflow_step_completed" "A step ended well.",
    WorkflowStepFailed "vmcp_workflow_step_failed" "A step failed.",
    WorkflowStepSkipped "vmcp_workflow_step_skipped" "A step was skipped.",
    LoginStarted "vmcp_login_started" "A client asked for a login at the authorization server.",
    LoginCompleted "vmcp_login_completed" "A person logged in, and the client got a code.",
    LoginFailed "vmcp_login_failed" "A login was refused, given up or not begun.",
    ConsentGiven "vmcp_consent_given" "A person allowed what a client asks for.",
    ConsentDenied "vmcp_consent_denied" "A person did not allow it.",
    TokenIssued "vmcp_token_issued" "A client redeemed a code.",
    TokenRefreshed "vmcp_token_refreshed" "A client refreshed.",
    TokenRefused "vmcp_token_refused" "A client got no token, or was refused a revocation or introspection.",
    TokenReused "vmcp_token_reused" "A code or a refresh token was presented again; what it gave is revoked.",
    TokenRevoked "vmcp_token_revoked" "A client or a person ended a session.",
    ClientRegistered "vmcp_client_registered" "A client registered.",
    ClientRefused "vmcp_client_refused" "A registration was refused.",
    UpstreamLinked "vmcp_upstream_linked" "Tokens of an identity provider are kept for a person.",
    UpstreamUnlinked "vmcp_upstream_unlinked" "A person took them away.",
    UpstreamLost "vmcp_upstream_lost" "An identity provider does not renew them any more.",
}

define_named_enum! {
    Outcome "How an operation ended."
    Success "success" "It was answered with a result.",
    Denied "denied" "The caller was not known, or was not allowed to.",
    Failure "failure" "The request was at fault (other 4xx), or nobody waited for the answer.",
    Error "error" "The gateway or a backend was at fault (5xx), or the answer broke off.",
    ApplicationError "application_error" "The answer is a JSON-RPC error or a tool's error, in a 2xx.",
}

/// A name that no event has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown event type {found:?}; the types are {}", names())]
pub struct UnknownEventTypeError {
    /// What was found, its first 64 characters.
    pub found: Box<str>,
}

/// Which events are written (`eventTypes`, `excludeEventTypes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventFilter(u64);

// === impl EventType ===

impl EventType {
    /// The type of a message of this method.
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

    /// Whether it is about the authorization server: what an MCP request is about is not.
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

/// All names, as one list.
fn names() -> String {
    EventType::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")
}

// === impl Selection ===

impl EventFilter {
    /// Every type.
    pub const ALL: Self = Self(u64::MAX);

    /// The types in `only`, or all if it is empty, without those in `except`.
    #[must_use]
    pub fn new(only: &[EventType], except: &[EventType]) -> Self {
        let bits = |kinds: &[EventType]| kinds.iter().fold(0, |bits, kind| bits | kind.bit());
        let wanted = if only.is_empty() { u64::MAX } else { bits(only) };
        Self(wanted & !bits(except))
    }

    /// Whether events of this type are written.
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
    fn tells_auth_server_events_from_others() {
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
