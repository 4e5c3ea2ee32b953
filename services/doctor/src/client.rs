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
pub(crate) enum Sameness {
    /// The server's URL itself.
    Same,
    /// One of the same origin, whose path the server's begins with.
    Covers,
}

/// What a client does that others don't.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a habit by itself")]
pub(crate) struct Habits {
    /// What it registers as.
    pub(crate) name: &'static str,
    /// Where it is sent back to.
    pub(crate) redirect_uris: &'static [&'static str],
    /// The document that it is known by, if it has one.
    pub(crate) document: Option<&'static str>,
    /// Whether it uses that only where the server lists the authentication method `none`.
    pub(crate) document_wants_none: bool,
    /// Whether it runs somewhere on the internet, from where it reaches public addresses over https only.
    pub(crate) hosted: bool,
    /// Whether a 403 is a challenge too.
    pub(crate) forbidden_challenges: bool,
    /// Whether a challenge with a relative address ends it; others go on as if there was none.
    pub(crate) relative_ends: bool,
    /// Whether a server error at one address ends it; others try the next.
    pub(crate) error_ends: bool,
    /// Which resource it accepts.
    pub(crate) resource: Sameness,
    /// Whether it goes on without metadata of the resource, as clients of MCP 2025-03-26 do.
    pub(crate) goes_on_without: bool,
    /// Whether it compares the issuer in the metadata with the one it looked for (RFC 8414 section 3.3).
    pub(crate) compares_issuers: bool,
    /// Whether the metadata has to list `S256`; for others it must not leave it out of a list that is there.
    pub(crate) wants_s256: bool,
}

/// What a client does that is made with the TypeScript SDK.
const SDK: Habits = Habits {
    name: "",
    redirect_uris: &[],
    document: None,
    document_wants_none: false,
    hosted: false,
    forbidden_challenges: false,
    relative_ends: false,
    error_ends: true,
    resource: Sameness::Covers,
    goes_on_without: true,
    compares_issuers: false,
    wants_s256: false,
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

    pub(crate) fn habits(self) -> Habits {
        match self {
            Self::Claude => Habits {
                name: "Claude",
                redirect_uris: &["https://claude.ai/api/mcp/auth_callback"],
                document: Some("the URL of its metadata document"),
                document_wants_none: true,
                hosted: true,
                relative_ends: true,
                error_ends: false,
                resource: Sameness::Same,
                ..SDK
            },
            Self::ChatGpt => Habits {
                name: "ChatGPT",
                redirect_uris: &["https://chatgpt.com/connector_platform_oauth_redirect"],
                document: Some("https://chatgpt.com/oauth/CALLBACK_ID/client.json"),
                hosted: true,
                error_ends: false,
                goes_on_without: false,
                wants_s256: true,
                ..SDK
            },
            Self::Cursor => Habits {
                name: "Cursor",
                redirect_uris: &[
                    "cursor://anysphere.cursor-mcp/oauth/callback",
                    "https://www.cursor.com/agents/mcp/oauth/callback",
                    "http://localhost:8787/callback",
                ],
                ..SDK
            },
            Self::VsCode => Habits {
                name: "Visual Studio Code",
                redirect_uris: &[
                    "https://insiders.vscode.dev/redirect",
                    "https://vscode.dev/redirect",
                    "http://127.0.0.1/",
                    "http://127.0.0.1:33418/",
                ],
                document: Some("https://vscode.dev/oauth/client-metadata.json"),
                forbidden_challenges: true,
                error_ends: false,
                resource: Sameness::Same,
                ..SDK
            },
            Self::Inspector => Habits {
                name: "MCP Inspector",
                redirect_uris: &["http://localhost:6274/oauth/callback"],
                compares_issuers: true,
                ..SDK
            },
        }
    }
}
