//! Audit events of client requests (`audit`).

use crate::config_value::{Constraint, keyword_enum, section_with_default};

section_with_default! {
    /// Records of MCP operations, and of logins at the embedded authorization server, one JSON line each.
    pub struct Audit {
        /// Enables audit events.
        pub enabled: bool = false;
        /// Name of the component in each record.
        pub component: Option<String>;
        /// Detects JSON-RPC errors at the beginning of 2xx responses, even if responses are not recorded.
        pub detect_application_errors: bool = true;
        /// Events to record. Empty records all.
        pub event_types: Vec<EventType> = Vec::new();
        /// Events not to record, even if `eventTypes` lists them.
        pub exclude_event_types: Vec<EventType> = Vec::new();
        /// Records the beginning of requests.
        pub include_request_data: bool = false;
        /// Records the beginning of responses.
        pub include_response_data: bool = false;
        /// File to append to. Absent or empty is standard output.
        pub log_file: Option<String>;
        /// Maximum bytes of a request or a response in one record, up to 1 MiB.
        pub max_data_size: u32 = 1024, [Constraint::Range(1, 1_048_576)];
    }
}

keyword_enum! {
    /// Type of an audit event.
    pub enum EventType {
        /// `initialize`.
        McpInitialize = "mcp_initialize",
        /// `tools/call`.
        McpToolCall = "mcp_tool_call",
        /// `tools/list`.
        McpToolsList = "mcp_tools_list",
        /// `resources/read`.
        McpResourceRead = "mcp_resource_read",
        /// `resources/list`.
        McpResourcesList = "mcp_resources_list",
        /// `prompts/get`.
        McpPromptGet = "mcp_prompt_get",
        /// `prompts/list`.
        McpPromptsList = "mcp_prompts_list",
        /// A notification.
        McpNotification = "mcp_notification",
        /// `ping`.
        McpPing = "mcp_ping",
        /// `logging/setLevel`.
        McpLogging = "mcp_logging",
        /// `completion/complete`.
        McpCompletion = "mcp_completion",
        /// `notifications/roots/list_changed`.
        McpRootsListChanged = "mcp_roots_list_changed",
        /// Any other MCP method.
        McpRequest = "mcp_request",
        /// An HTTP request that is not MCP.
        HttpRequest = "http_request",
        /// A stream was opened.
        SseConnection = "sse_connection",
        /// A composite tool started.
        WorkflowStarted = "vmcp_workflow_started",
        /// A composite tool completed.
        WorkflowCompleted = "vmcp_workflow_completed",
        /// A composite tool failed.
        WorkflowFailed = "vmcp_workflow_failed",
        /// A composite tool timed out.
        WorkflowTimedOut = "vmcp_workflow_timed_out",
        /// A step started.
        WorkflowStepStarted = "vmcp_workflow_step_started",
        /// A step completed.
        WorkflowStepCompleted = "vmcp_workflow_step_completed",
        /// A step failed.
        WorkflowStepFailed = "vmcp_workflow_step_failed",
        /// A step was skipped.
        WorkflowStepSkipped = "vmcp_workflow_step_skipped",
        /// A client started a login at the authorization server.
        LoginStarted = "vmcp_login_started",
        /// A user logged in, and the client received a code.
        LoginCompleted = "vmcp_login_completed",
        /// A login was rejected, abandoned or not started.
        LoginFailed = "vmcp_login_failed",
        /// A user consented to the request of a client.
        ConsentGiven = "vmcp_consent_given",
        /// A user denied the request of a client.
        ConsentDenied = "vmcp_consent_denied",
        /// A client redeemed a code.
        TokenIssued = "vmcp_token_issued",
        /// A client refreshed its tokens.
        TokenRefreshed = "vmcp_token_refreshed",
        /// A token, revocation or introspection request was rejected.
        TokenRefused = "vmcp_token_refused",
        /// A code or a refresh token was reused; the tokens issued for it are revoked.
        TokenReused = "vmcp_token_reused",
        /// A client or a user ended a session.
        TokenRevoked = "vmcp_token_revoked",
        /// A client registered.
        ClientRegistered = "vmcp_client_registered",
        /// A registration was rejected.
        ClientRefused = "vmcp_client_refused",
        /// Tokens of an identity provider are stored for a user.
        UpstreamLinked = "vmcp_upstream_linked",
        /// A user removed the tokens of an identity provider.
        UpstreamUnlinked = "vmcp_upstream_unlinked",
        /// An identity provider no longer refreshes the tokens of a user.
        UpstreamLost = "vmcp_upstream_lost",
    }
}

impl Audit {
    /// Returns `true` if all event types that would be recorded are excluded.
    #[must_use]
    pub fn records_nothing(&self) -> bool {
        let is_excluded = |kind: &&str| {
            self.exclude_event_types.iter().any(|excluded| excluded.as_str() == *kind)
        };
        if self.event_types.is_empty() {
            return EventType::KEYWORDS.iter().all(is_excluded);
        }
        self.event_types.iter().all(|kind| is_excluded(&kind.as_str()))
    }
}
