//! What is known of the clients. Where from is in the crate's documentation.

/// A client whose discovery can be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Claude, on the web, on the desktop and on telephones.
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

/// Which `resource` a client accepts in a document (RFC 9728 section 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceMatch {
    /// The server's URL itself.
    Exact,
    /// One of the same origin, whose path the server's begins with.
    Covers,
}

/// What a client does that others don't.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a habit by itself")]
pub(crate) struct ClientQuirks {
    /// What it registers as.
    pub(crate) name: &'static str,
    /// Where it is sent back to.
    pub(crate) redirect_uris: &'static [&'static str],
    /// The document that it is known by, if it has one.
    pub(crate) document: Option<&'static str>,
    /// Whether it uses that only where the server lists the authentication method `none`.
    pub(crate) document_requires_none_method: bool,
    /// Whether it runs somewhere on the internet, from where it reaches public addresses over https only.
    pub(crate) is_hosted: bool,
    /// Whether a 403 is a challenge too.
    pub(crate) accepts_forbidden_challenge: bool,
    /// Whether a challenge with a relative address ends it; others go on as if there was none.
    pub(crate) rejects_relative_metadata_url: bool,
    /// Whether a server error at one address ends it; others try the next.
    pub(crate) stops_on_server_error: bool,
    /// Which resource it accepts.
    pub(crate) resource: ResourceMatch,
    /// Whether it goes on without metadata of the resource, as clients of MCP 2025-03-26 do.
    pub(crate) falls_back_without_metadata: bool,
    /// Whether it compares the issuer in the metadata with the one it looked for (RFC 8414 section 3.3).
    pub(crate) compares_issuers: bool,
    /// Whether the metadata has to list `S256`; for others it must not leave it out of a list that is there.
    pub(crate) requires_s256: bool,
}

/// What a client does that is made with the TypeScript TYPESCRIPT_SDK.
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
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Claude, Self::ChatGpt, Self::Cursor, Self::VsCode, Self::Inspector];

    /// What it is called.
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
