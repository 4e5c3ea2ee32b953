//! Backends: URLs, transports and headers (`backends`).

mod document;

use std::collections::BTreeMap;

pub use self::document::{
    BackendDocument, BackendUrl, BackendUrlError, FileDocument, HeaderTemplate, Headers, NoHeaders,
    ResourceDocument,
};
use crate::{
    config_value::{Constraint, Rule, Variant, keyword_enum, raw_conversion, section},
    context::Context,
    string_types::{EnvName, FilePath},
    template::Template,
    tree::Node,
};

/// One MCP server behind the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend<D: BackendDocument = FileDocument> {
    /// Unique in its document. Prefixes, timeouts and credentials refer to it.
    pub name: String,
    /// URL of the MCP endpoint.
    pub url: D::Url,
    /// Transport of the MCP endpoint.
    pub transport: Transport,
    /// Kind of backend.
    pub kind: BackendKind,
    /// Headers of each request to the backend, by name. Always empty in a resource.
    pub headers: D::Headers,
    /// Free-form data. The server sets the key `group`.
    pub metadata: BTreeMap<String, String>,
}

/// Kind of backend.
#[derive(Clone, Debug, PartialEq)]
pub enum BackendKind {
    /// Workload of the cluster or its proxy; no `type` in the document.
    Workload,
    /// A remote server that is connected to directly; `type: entry`.
    Entry {
        /// A PEM bundle to trust instead of the system's certificates.
        ca_bundle_path: Option<FilePath>,
        /// Addresses that the name in the URL may resolve to: `true` for private and public ones, `false` for public
        /// ones. Absent for all, also loopback and link-local ones.
        allow_private_endpoint: Option<bool>,
    },
}

keyword_enum! {
    /// MCP transport of a backend.
    pub enum Transport {
        /// HTTP+SSE of the 2024-11-05 revision.
        Sse = "sse",
        /// Streamable HTTP.
        StreamableHttp = "streamable-http",
    }
}

keyword_enum! {
    /// Value of `type`.
    enum BackendKindTag {
        /// No type.
        Workload = "",
        /// A remote server.
        Entry = "entry",
    }
}

section! {
    /// One MCP server behind the gateway.
    struct RawBackend<D: BackendDocument> {
        /// Unique name of the backend. Prefixes, timeouts and credentials refer to it.
        name: String, [Constraint::NotEmpty];
        /// Base URL where MCP is served. In a file, ${NAME} is an environment variable that `variables` lists.
        url: D::Url;
        /// MCP transport: streamable-http, or sse for the deprecated HTTP+SSE.
        transport: Transport;
        /// `entry` for a remote server that is connected to directly; empty or absent for a workload.
        r#type: BackendKindTag = BackendKindTag::Workload;
        /// PEM bundle of certificates to trust for this backend. Only with `type: entry`.
        ca_bundle_path: Option<FilePath>;
        /// Addresses that the name in the URL may resolve to: true for private and public ones, false for public ones
        /// alone. Absent is all, also loopback and link-local ones. Only with `type: entry`.
        allow_private_endpoint: Option<bool>;
        /// Headers of each request to the backend, the same for all callers. ${NAME} is an environment variable that
        /// `variables` lists. At most 32. In a file only.
        headers: D::Headers = Default::default();
        /// Free-form data in the status. The server sets the key `group`.
        metadata: BTreeMap<String, String> = BTreeMap::new();
    }
    rules [Rule::Moved(
        "command",
        "url; a stdio server needs a bridge to HTTP, whose command prints: vmcp init --from FILE"
    ), Rule::Variants {
        tag: "type",
        default: Some(""),
        variants: &[
            Variant { value: "", requires: &[], forbids: &["caBundlePath", "allowPrivateEndpoint"] },
            Variant { value: "entry", requires: &[], forbids: &[] },
        ],
    }]
}

raw_conversion!(Backend<D: BackendDocument> as RawBackend<D>);

// === impl Backend ===

impl<D: BackendDocument> Backend<D> {
    #[allow(clippy::unnecessary_wraps)] // The signature is that of every raw conversion.
    fn from_raw(raw: RawBackend<D>, _: &Node, _: &mut Context) -> Option<Self> {
        let RawBackend {
            name,
            url,
            transport,
            r#type,
            ca_bundle_path,
            allow_private_endpoint,
            headers,
            metadata,
        } = raw;
        let kind = match r#type {
            BackendKindTag::Workload => BackendKind::Workload,
            BackendKindTag::Entry => BackendKind::Entry { ca_bundle_path, allow_private_endpoint },
        };
        Some(Self { name, url, transport, kind, headers, metadata })
    }

    fn to_raw(&self) -> RawBackend<D> {
        let Self { name, url, transport, kind, headers, metadata } = self.clone();
        let (r#type, ca_bundle_path, allow_private_endpoint) = match kind {
            BackendKind::Workload => (BackendKindTag::Workload, None, None),
            BackendKind::Entry { ca_bundle_path, allow_private_endpoint } => {
                (BackendKindTag::Entry, ca_bundle_path, allow_private_endpoint)
            }
        };
        RawBackend {
            name,
            url,
            transport,
            r#type,
            ca_bundle_path,
            allow_private_endpoint,
            headers,
            metadata,
        }
    }
}

impl Backend<FileDocument> {
    /// Returns the environment variables that the URL and the headers read.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        let url = match &self.url {
            BackendUrl::Literal(_) => None,
            BackendUrl::Template(template) => Some(template),
        };
        let templates =
            url.into_iter().chain(self.headers.iter().map(|(_, value)| value.template()));
        templates.flat_map(Template::variables).map(EnvName::as_str)
    }
}
