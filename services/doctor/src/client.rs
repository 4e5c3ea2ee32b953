//! Behavior of the clients. The crate documentation lists the sources.

/// MCP client whose discovery can be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Claude on the web, on desktop and on mobile.
    Claude,
    /// ChatGPT.
    ChatGpt,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    VsCode,
    /// The MCP Inspector.
    Inspector,
}

/// Match of `resource` in the metadata with the server's URL (RFC 9728 section 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceMatch {
    /// Equal to the server's URL.
    Exact,
    /// Of the same origin, with a path that is a prefix of the server's.
    Covers,
}

/// Behavior of a client that differs from that of other clients.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "the quirks are independent of each other")]
pub(crate) struct ClientQuirks {
    /// Client name in a registration.
    pub(crate) name: &'static str,
    /// Redirect URIs of the client.
    pub(crate) redirect_uris: &'static [&'static str],
    /// Metadata document of the client, if it has one.
    pub(crate) document: Option<&'static str>,
    /// Uses the document only if the server lists the authentication method `none`.
    pub(crate) document_requires_none_method: bool,
    /// Runs on the internet, where it reaches public addresses over https only.
    pub(crate) is_hosted: bool,
    /// Accepts a challenge in a 403.
    pub(crate) accepts_forbidden_challenge: bool,
    /// Stops at a challenge with a relative metadata URL; other clients ignore the challenge.
    pub(crate) rejects_relative_metadata_url: bool,
    /// Stops at a server error of one URL; other clients try the next one.
    pub(crate) stops_on_server_error: bool,
    /// Required match of the resource.
    pub(crate) resource: ResourceMatch,
    /// Continues without metadata of the resource, as clients of MCP 2025-03-26 do.
    pub(crate) falls_back_without_metadata: bool,
    /// Compares the issuer in the metadata with the expected one (RFC 8414 section 3.3).
    pub(crate) compares_issuers: bool,
    /// Requires `S256` in the metadata; other clients only reject a list without it.
    pub(crate) requires_s256: bool,
}

/// Behavior of clients that use the TypeScript SDK.
const TYPESCRIPT_SDK: ClientQuirks = ClientQuirks {
    name: "",
    redirect_uris: &[],
    document: None,
    document_requires_none_method: false,
    is_hosted: false,
    accepts_forbidden_challenge: false,
    rejects_relative_metadata_url: false,
    stops_on_server_error: true,
    resource: ResourceMatch::Covers,
    falls_back_without_metadata: true,
    compares_issuers: false,
    requires_s256: false,
};

impl Client {
    /// All clients.
    pub const ALL: [Self; 5] =
        [Self::Claude, Self::ChatGpt, Self::Cursor, Self::VsCode, Self::Inspector];

    /// Returns the display name of the client.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "Claude",
            Self::ChatGpt => "ChatGPT",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
            Self::Inspector => "MCP Inspector",
        }
    }

    pub(crate) fn quirks(self) -> ClientQuirks {
        match self {
            Self::Claude => ClientQuirks {
                name: "Claude",
                redirect_uris: &["https://claude.ai/api/mcp/auth_callback"],
                document: Some("the URL of its metadata document"),
                document_requires_none_method: true,
                is_hosted: true,
                rejects_relative_metadata_url: true,
                stops_on_server_error: false,
                resource: ResourceMatch::Exact,
                ..TYPESCRIPT_SDK
            },
            Self::ChatGpt => ClientQuirks {
                name: "ChatGPT",
                redirect_uris: &["https://chatgpt.com/connector_platform_oauth_redirect"],
                document: Some("https://chatgpt.com/oauth/CALLBACK_ID/client.json"),
                is_hosted: true,
                stops_on_server_error: false,
                falls_back_without_metadata: false,
                requires_s256: true,
                ..TYPESCRIPT_SDK
            },
            Self::Cursor => ClientQuirks {
                name: "Cursor",
                redirect_uris: &[
                    "cursor://anysphere.cursor-mcp/oauth/callback",
                    "https://www.cursor.com/agents/mcp/oauth/callback",
                    "http://localhost:8787/callback",
                ],
                ..TYPESCRIPT_SDK
            },
            Self::VsCode => ClientQuirks {
                name: "Visual Studio Code",
                redirect_uris: &[
                    "https://insiders.vscode.dev/redirect",
                    "https://vscode.dev/redirect",
                    "http://127.0.0.1/",
                    "http://127.0.0.1:33418/",
                ],
                document: Some("https://vscode.dev/oauth/client-metadata.json"),
                accepts_forbidden_challenge: true,
                stops_on_server_error: false,
                resource: ResourceMatch::Exact,
                ..TYPESCRIPT_SDK
            },
            Self::Inspector => ClientQuirks {
                name: "MCP Inspector",
                redirect_uris: &["http://localhost:6274/oauth/callback"],
                compares_issuers: true,
                ..TYPESCRIPT_SDK
            },
        }
    }
}
