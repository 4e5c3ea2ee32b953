//! What a caller may see and do, handed inward to the service that makes lists and routes calls.

use std::fmt;
use std::sync::Arc;

/// What the caller of one request may see and do. Authorization puts it into the request's extensions;
/// without it everything is permitted.
///
/// Whoever lists shows what is [`visible`](Admission::visible); whoever routes asks
/// [`admit`](Admission::admit) with the very bytes that will go out. A name that is not visible is
/// answered exactly like one that does not exist.
#[derive(Clone)]
pub struct Admission(Arc<dyn Admit>);

/// Decides for one caller.
///
/// Both questions are answered without I/O; evaluating policies takes its time, so long lists are
/// asked about away from the asynchronous workers.
pub trait Admit: Send + Sync {
    /// Whether the caller may know of `item`. `false` implies that [`admit`](Admit::admit) hides it;
    /// `true` promises nothing about arguments.
    fn visible(&self, item: &Item<'_>) -> bool;

    /// Whether the caller may use `item` with `arguments`, the raw JSON of the arguments object.
    fn admit(&self, item: &Item<'_>, arguments: Option<&[u8]>) -> Verdict;

    /// What [`visible`](Admit::visible) depends on: two with the same key see the same, under the same
    /// policies and the same claims of those that the policies read.
    fn view(&self) -> ViewKey;
}

/// What identifies a view: a digest over the policies' epoch and the claims that they read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ViewKey(pub [u8; 16]);

/// One thing that is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// What it is.
    pub kind: ItemKind,
    /// Its name as the client knows it; the URI of a resource, the template of a template.
    pub name: &'a str,
    /// What its server says it does.
    pub hints: Hints,
}

/// What kind of thing it is.
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

/// Whether a caller may use something.
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
    /// What `admit` decides.
    #[must_use]
    pub fn new(admit: impl Admit + 'static) -> Self {
        Self(Arc::new(admit))
    }

    /// Whether the caller may know of `item`.
    #[must_use]
    pub fn visible(&self, item: &Item<'_>) -> bool {
        self.0.visible(item)
    }

    /// Whether the caller may use `item` with `arguments`.
    #[must_use]
    pub fn admit(&self, item: &Item<'_>, arguments: Option<&[u8]>) -> Verdict {
        self.0.admit(item, arguments)
    }

    /// What the set of visible items depends on.
    #[must_use]
    pub fn view(&self) -> ViewKey {
        self.0.view()
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Admission").field(&self.view()).finish()
    }
}
