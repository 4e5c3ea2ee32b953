//! Permissions of a caller, passed to the service that makes lists and routes calls.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use vmcp_wire::write_json_string;

use crate::dot_segments::has_dot_segments;
use crate::{Fingerprint, Generation, Rejection, code};

/// Permissions of the caller of one request. Authorization inserts them into the request's extensions;
/// without them everything is permitted.
///
/// A service lists the items for which [`is_visible`](CallerPermissions::is_visible) holds. Before it routes a call, it calls
/// [`authorize`](CallerPermissions::authorize) with the bytes that it sends. It rejects a name that is not visible exactly
/// like a name that does not exist.
///
/// A URI with dot segments, plain or encoded, is never visible: its server may read it as another one than policies do.
#[derive(Clone)]
pub struct CallerPermissions(Arc<dyn Authorizer>);

/// Authorizer of one caller.
///
/// The methods perform no I/O, but evaluating policies takes time: services evaluate long lists off the asynchronous workers.
pub trait Authorizer: Send + Sync {
    /// Returns `true` if the caller may know of `item`. `false` implies that [`authorize`](Authorizer::authorize) hides it;
    /// `true` says nothing about arguments.
    fn is_visible(&self, item: &Item<'_>) -> bool;

    /// Decides whether the caller may use `item` with `arguments`, the raw JSON of the arguments object.
    fn authorize(&self, item: &Item<'_>, arguments: Option<&[u8]>) -> Decision;

    /// Returns the key of everything that [`is_visible`](Authorizer::is_visible) depends on. Callers with the same key see
    /// the same items, under the same policies and equal values of the claims that the policies read.
    fn visibility_key(&self) -> Fingerprint;

    /// Returns `true` if a decision may depend on [`Item::backend`]. With `false` the caller can leave the backend out, which
    /// saves a lookup for items that are denied anyway.
    fn reads_backend(&self) -> bool {
        true
    }
}

/// One item of a list: a tool, prompt, resource or template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Kind of the item.
    pub kind: ItemKind,
    /// Its name as the client knows it; the URI of a resource, the template of a template.
    pub name: &'a str,
    /// Annotations by its server.
    pub annotations: ToolAnnotations,
    /// The backend that serves the item. `None` without one, if it is unknown, and if no decision depends on it
    /// ([`CallerPermissions::reads_backend`]).
    pub backend: Option<ItemBackend<'a>>,
}

/// Backend of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ItemBackend<'a> {
    /// Its name in the configuration.
    pub name: &'a str,
    /// The generation in which the backend is spoken to when the item is used.
    pub generation: Generation,
}

/// Kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ItemKind {
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// A resource.
    Resource,
    /// A resource template (RFC 6570).
    ResourceTemplate,
}

/// A tool's annotations (MCP, `ToolAnnotations`), as its server gave them and the configuration
/// overrides them, never as a request says. `None` is not given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ToolAnnotations {
    /// `readOnlyHint`.
    pub read_only: Option<bool>,
    /// `destructiveHint`.
    pub destructive: Option<bool>,
    /// `idempotentHint`.
    pub idempotent: Option<bool>,
    /// `openWorldHint`.
    pub open_world: Option<bool>,
}

/// Marker in the extensions of a response whose list the service has filtered by the request's [`CallerPermissions`].
/// Authorization does not filter it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyFiltered;

/// Decision about the use of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The caller may use the item.
    Allow,
    /// The caller may not know that the item exists.
    Hide,
    /// The caller may know of the item, but not use it with these arguments.
    Deny,
    /// The caller needs a token with these scopes too (RFC 6750 section 3.1, `insufficient_scope`).
    InsufficientScope(Vec<Box<str>>),
}

impl CallerPermissions {
    /// Creates the permissions that `authorizer` decides on.
    #[must_use]
    pub fn new(authorizer: impl Authorizer + 'static) -> Self {
        Self(Arc::new(authorizer))
    }

    /// Returns `true` if the caller may know of `item`.
    #[must_use]
    pub fn is_visible(&self, item: &Item<'_>) -> bool {
        !item.is_ambiguous() && self.0.is_visible(item)
    }

    /// Decides whether the caller may use `item` with `arguments`.
    #[must_use]
    pub fn authorize(&self, item: &Item<'_>, arguments: Option<&[u8]>) -> Decision {
        if item.is_ambiguous() {
            return Decision::Hide;
        }
        self.0.authorize(item, arguments)
    }

    /// Returns the key of everything that the set of visible items depends on.
    #[must_use]
    pub fn visibility_key(&self) -> Fingerprint {
        self.0.visibility_key()
    }

    /// Returns `true` if a decision may depend on [`Item::backend`].
    #[must_use]
    pub fn reads_backend(&self) -> bool {
        self.0.reads_backend()
    }
}

impl Item<'_> {
    /// Returns `true` if its server may resolve the URI to another one.
    fn is_ambiguous(&self) -> bool {
        matches!(self.kind, ItemKind::Resource | ItemKind::ResourceTemplate)
            && has_dot_segments(self.name)
    }
}

impl ItemKind {
    /// Returns the rejection of an item that does not exist or that is hidden from the caller, with the same bytes for both.
    /// A missing resource has a code of its own in the stateful generation, and its URI beside the message in both (MCP,
    /// Resources, Error Handling).
    #[must_use]
    pub fn not_found(self, name: &str, generation: Generation) -> Rejection {
        let stateful = generation == Generation::Stateful;
        let rejection = match self {
            Self::Tool => Rejection::not_found("tool", name),
            Self::Prompt => Rejection::not_found("prompt", name),
            Self::Resource | Self::ResourceTemplate => {
                let unknown = Rejection::not_found("resource", name);
                let mut data = b"{\"uri\":".to_vec();
                write_json_string(&truncate_name(name), &mut data);
                data.push(b'}');
                let message = unknown.message().to_owned();
                let unknown = if stateful {
                    Rejection::new(StatusCode::OK, code::RESOURCE_NOT_FOUND, message)
                } else {
                    unknown
                };
                unknown.with_data(data)
            }
        };
        if stateful { rejection.for_stateful_client() } else { rejection }
    }
}

/// Returns the first 256 characters of a name, for messages.
pub(crate) fn truncate_name(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(256) {
        Some((end, _)) => Cow::Owned(format!("{}…", &name[..end])),
        None => Cow::Borrowed(name),
    }
}

impl fmt::Debug for CallerPermissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CallerPermissions").field(&self.visibility_key()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejection(kind: ItemKind, generation: Generation) -> (u16, bytes::Bytes) {
        let rejection = kind.not_found("x", generation);
        (rejection.status().as_u16(), rejection.to_json(None))
    }

    #[test]
    fn not_found_rejection_depends_on_generation() {
        let tool = r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"unknown tool: x"}}"#;
        assert_eq!(rejection(ItemKind::Tool, Generation::Stateful), (200, tool.into()));
        assert_eq!(rejection(ItemKind::Tool, Generation::Stateless), (400, tool.into()));
        let resource = |code: i32| {
            format!(
                r#"{{"jsonrpc":"2.0","error":{{"code":{code},"message":"unknown resource: x","data":{{"uri":"x"}}}}}}"#
            )
        };
        let stateful = (200, resource(-32002).into());
        assert_eq!(rejection(ItemKind::Resource, Generation::Stateful), stateful);
        let stateless = (400, resource(-32602).into());
        assert_eq!(rejection(ItemKind::ResourceTemplate, Generation::Stateless), stateless);
    }

    #[test]
    fn truncates_long_names() {
        let rejection = ItemKind::Tool.not_found(&"ä".repeat(10_000), Generation::Stateless);
        assert!(rejection.message().chars().count() < 300);
        assert_eq!(
            truncate_name(&truncate_name(&"ä".repeat(300))),
            truncate_name(&"ä".repeat(300))
        );
    }
}
