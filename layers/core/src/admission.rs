//! Permissions of a caller, passed to the service that makes lists and routes calls.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use vmcp_wire::quote;

use crate::dot_segments::has_dot_segments;
use crate::{Generation, Rejection, code};

/// Permissions of the caller of one request. Authorization inserts them into the request's extensions;
/// without them everything is permitted.
///
/// A service lists the items that are [`visible`](Admission::visible), and before it routes a call it asks
/// [`admit`](Admission::admit) with the bytes that it sends. It rejects a name that is not visible exactly
/// like a name that does not exist.
///
/// A URI with dot segments, plain or encoded, is never visible: its server may read it as another one than policies do.
#[derive(Clone)]
pub struct Admission(Arc<dyn Admit>);

/// Decides for one caller.
///
/// Both questions are answered without I/O; evaluating policies takes its time, so long lists are
/// asked about away from the asynchronous workers.
pub trait Admit: Send + Sync {
    /// Returns `true` if the caller may know of `item`. `false` implies that [`admit`](Admit::admit) hides it;
    /// `true` says nothing about arguments.
    fn visible(&self, item: &Item<'_>) -> bool;

    /// Decides whether the caller may use `item` with `arguments`, the raw JSON of the arguments object.
    fn admit(&self, item: &Item<'_>, arguments: Option<&[u8]>) -> Verdict;

    /// Returns the key of everything that [`visible`](Admit::visible) depends on: callers with the same key see the same
    /// items, under the same policies and equal values of the claims that the policies read.
    fn view(&self) -> ViewKey;

    /// Returns `true` if a decision may depend on [`Item::backend`]. With `false` the caller can leave the backend out, which
    /// saves a lookup for items that are denied anyway.
    fn reads_backend(&self) -> bool {
        true
    }
}

/// Key of the items that are visible to a caller: a digest of the policies' epoch and the claims that they read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ViewKey(pub [u8; 16]);

/// One item of a list: a tool, prompt, resource or template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Kind of the item.
    pub kind: ItemKind,
    /// Its name as the client knows it; the URI of a resource, the template of a template.
    pub name: &'a str,
    /// Annotations by its server.
    pub hints: Hints,
    /// The backend that answers for it. `None` where none does, where none is known, and where
    /// [`Admission::reads_backend`] says that it doesn't matter.
    pub backend: Option<ItemBackend<'a>>,
}

/// The backend of an item, out of several.
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
pub struct Hints {
    /// `readOnlyHint`.
    pub read_only: Option<bool>,
    /// `destructiveHint`.
    pub destructive: Option<bool>,
    /// `idempotentHint`.
    pub idempotent: Option<bool>,
    /// `openWorldHint`.
    pub open_world: Option<bool>,
}

/// Mark in the extensions of a response: the service that made this list asked the request's [`Admission`] about each
/// item, so that authorization need not filter it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filtered;

/// Decision about the use of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes.
    Permitted,
    /// No, and it may not know that it exists.
    Hidden,
    /// It may know of it, but not use it so.
    Denied,
    /// With a token that has these scopes too (RFC 6750 section 3.1, `insufficient_scope`).
    NeedsScopes(Vec<Box<str>>),
}

impl Admission {
    /// Creates the permissions that `admit` decides on.
    #[must_use]
    pub fn new(admit: impl Admit + 'static) -> Self {
        Self(Arc::new(admit))
    }

    /// Returns `true` if the caller may know of `item`.
    #[must_use]
    pub fn visible(&self, item: &Item<'_>) -> bool {
        !item.is_ambiguous() && self.0.visible(item)
    }

    /// Decides whether the caller may use `item` with `arguments`.
    #[must_use]
    pub fn admit(&self, item: &Item<'_>, arguments: Option<&[u8]>) -> Verdict {
        if item.is_ambiguous() {
            return Verdict::Hidden;
        }
        self.0.admit(item, arguments)
    }

    /// Returns the key of everything that the set of visible items depends on.
    #[must_use]
    pub fn view(&self) -> ViewKey {
        self.0.view()
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
    /// The answer about one of this kind that does not exist, or that the caller may not know of: the
    /// same bytes for both. A resource that is not there has a code of its own in the stateful
    /// generation, and its URI beside the message in both (MCP, Resources, Error Handling).
    #[must_use]
    pub fn unknown(self, name: &str, generation: Generation) -> Rejection {
        let stateful = generation == Generation::Stateful;
        let refusal = match self {
            Self::Tool => Rejection::unknown_name("tool", name),
            Self::Prompt => Rejection::unknown_name("prompt", name),
            Self::Resource | Self::ResourceTemplate => {
                let unknown = Rejection::unknown_name("resource", name);
                let mut data = b"{\"uri\":".to_vec();
                quote(&shortened(name), &mut data);
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
        if stateful { refusal.for_session() } else { refusal }
    }
}

/// Names are echoed, but not at any length.
pub(crate) fn shortened(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(256) {
        Some((end, _)) => Cow::Owned(format!("{}…", &name[..end])),
        None => Cow::Borrowed(name),
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Admission").field(&self.view()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(kind: ItemKind, generation: Generation) -> (u16, bytes::Bytes) {
        let refusal = kind.unknown("x", generation);
        (refusal.status().as_u16(), refusal.to_json(None))
    }

    #[test]
    fn the_answer_about_what_is_unknown_is_the_generations_own() {
        let tool = r#"{"jsonrpc":"2.0","error":{"code":-32602,"message":"unknown tool: x"}}"#;
        assert_eq!(answer(ItemKind::Tool, Generation::Stateful), (200, tool.into()));
        assert_eq!(answer(ItemKind::Tool, Generation::Stateless), (400, tool.into()));
        let resource = |code: i32| {
            format!(
                r#"{{"jsonrpc":"2.0","error":{{"code":{code},"message":"unknown resource: x","data":{{"uri":"x"}}}}}}"#
            )
        };
        let stateful = (200, resource(-32002).into());
        assert_eq!(answer(ItemKind::Resource, Generation::Stateful), stateful);
        let stateless = (400, resource(-32602).into());
        assert_eq!(answer(ItemKind::ResourceTemplate, Generation::Stateless), stateless);
    }

    #[test]
    fn a_long_name_is_not_echoed_as_a_whole() {
        let refusal = ItemKind::Tool.unknown(&"ä".repeat(10_000), Generation::Stateless);
        assert!(refusal.message().chars().count() < 300);
        assert_eq!(shortened(&shortened(&"ä".repeat(300))), shortened(&"ä".repeat(300)));
    }
}
