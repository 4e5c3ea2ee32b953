//! Target selection, and translation of requests to the backend's own names.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use vmcp_core::{BoxError, Generation, Item, ItemBackend, ItemKind, Rejection, ToolAnnotations};
use vmcp_wire::{Key, Span, Splice, find, find_span, parse_json_string};

use super::lookup::{LookupError, UriOwner, admitted, missing, owner, refuse};
use super::{Call, Origin, app};
use crate::backend::BackendHandle;
use crate::backend::error::{BackendError, is_too_large, rejection_of};
use crate::catalog::{LazyAnnotations, ParamHeader, Route, Routes, UI_SCHEME, check_headers};
use crate::settings::Conflicts;
use crate::snapshot::BackendCatalog;

/// Target of a request.
#[derive(Debug)]
pub(crate) struct CallTarget {
    pub(crate) backend: Arc<BackendHandle>,
    pub(crate) method: &'static str,
    /// The backend's own name, or the URI, as a JSON string literal.
    pub(crate) literal: Bytes,
    /// The message under that name; everything else is unchanged.
    pub(crate) message: Bytes,
    pub(crate) headers: Arc<[ParamHeader]>,
    /// Annotations declared by the server.
    annotations: LazyAnnotations,
    /// URI of a user interface as the client knows it, as a JSON string literal, if the backend has another one.
    pub(crate) alias: Option<Bytes>,
    /// Generation of the backend on which the policy decision is based, if policies read it.
    pub(crate) decided: Option<Generation>,
    /// Source of the call.
    origin: Origin,
}

impl CallTarget {
    /// Finds the target of a request.
    pub(crate) async fn find(call: &Call, method: &'static str) -> Result<Self, Rejection> {
        if call.snapshot.per_caller {
            // Boxed, so the futures of calls stay small if all offers are shared.
            return Box::pin(Self::find_own(call, method)).await;
        }
        let found = Self::look(call, method, call.snapshot.load_catalogs().of(call.generation()));
        match found {
            // A pending first offer may contain the target. Waiting is rare and should not enlarge the future of every call.
            Err(LookupError::Unknown(..)) => Box::pin(Self::find_late(call, method)).await,
            found => found.map_err(LookupError::into),
        }
    }

    /// Finds the target if some backends have per-caller offers.
    async fn find_own(call: &Call, method: &'static str) -> Result<Self, Rejection> {
        let prefixed = matches!(call.snapshot.rules.conflicts, Conflicts::Prefix(_));
        let named = matches!(method, "tools/call" | "prompts/get");
        let found = match call.context.catalogs.known_to(&call.snapshot, &call.caller, call.cause())
        {
            Some(all) => Self::look(call, method, all.of(call.generation())),
            // The caller's own offers may change the shared names, so wait for them.
            None if prefixed && named => {
                Self::look(call, method, call.snapshot.load_catalogs().of(call.generation()))
            }
            None => Self::look(call, method, &*call.offered().await?),
        };
        match found {
            Err(LookupError::Unknown(..)) => Self::find_late(call, method).await,
            found => found.map_err(LookupError::into),
        }
    }

    /// Finds the target after waiting for pending offers. A name is unknown only if no backend with a missing offer could have
    /// it.
    async fn find_late(call: &Call, method: &'static str) -> Result<Self, Rejection> {
        let (snapshot, seen) = call.seen().await?;
        match Self::look(call, method, seen.catalogs.of(call.generation())) {
            Err(LookupError::Unknown(rejection, kind, name)) => {
                // Per-caller backends offer nothing to anonymous callers.
                let named = !call.caller.identity().is_anonymous();
                let own = if named { &seen.missing[..] } else { &[] };
                Err(snapshot
                    .pending_rejection(kind, &name, own, call.generation())
                    .unwrap_or(rejection))
            }
            found => found.map_err(LookupError::into),
        }
    }

    fn look(call: &Call, method: &'static str, all: &BackendCatalog) -> Result<Self, LookupError> {
        match method {
            "tools/call" => Self::named(call, method, ItemKind::Tool, all),
            "prompts/get" => Self::named(call, method, ItemKind::Prompt, all),
            "completion/complete" => Self::completion(call, method, all),
            _ => Self::located(call, method, all),
        }
    }

    fn named(
        call: &Call,
        method: &'static str,
        kind: ItemKind,
        all: &BackendCatalog,
    ) -> Result<Self, LookupError> {
        let message = &call.message;
        let routes: &Routes<_> = if kind == ItemKind::Tool { &all.tools } else { &all.prompts };
        let Some(text) = message.text(Key::Name) else {
            return Err(refuse(format!("{method} needs params.name, a string")));
        };
        if message.param(Key::Arguments).is_some_and(|value| value.first() != Some(&b'{')) {
            return Err(refuse("params.arguments must be an object"));
        }
        let name = text.read(&message.bytes);
        let route = routes.get(&name).filter(|route| route.shown || call.origin == Origin::Step);
        let found = match route.map(|route| (&*name, route)) {
            None if kind == ItemKind::Tool => {
                app::tool(call, all, &name).map_err(LookupError::Refused)?
            }
            found => found,
        };
        let Some((known, route)) = found else { return Err(missing(call, kind, &name)) };
        let backend = call.item_backend(all, &route.backend);
        if call.permissions.is_some() {
            let item = Item { kind, name: known, annotations: route.annotations.get(), backend };
            admitted(call, &item, message.param(Key::Arguments))?;
        }
        if call.session.is_none() && call.origin == Origin::Client {
            check_headers(&route.headers, &call.headers, message.param(Key::Arguments))
                .map_err(LookupError::Refused)?;
        }
        if route.interface {
            app::record_opened(call, &route.backend);
        }
        Ok(Self::renamed(call, method, text.span, route).decided_for(backend))
    }

    /// Finds the target of a completion: a prompt by name, or a resource or template by URI.
    fn completion(
        call: &Call,
        method: &'static str,
        all: &BackendCatalog,
    ) -> Result<Self, LookupError> {
        let message = &call.message;
        let span =
            message.span(Key::Ref).ok_or_else(|| refuse("completion/complete needs params.ref"))?;
        let reference = span.of(&message.bytes);
        let kind = find(reference, "type").and_then(parse_json_string);
        let argument = message.param(Key::Argument).and_then(|argument| find(argument, "name"));
        let member = match kind.as_deref() {
            Some("ref/prompt") if argument.is_some() => "name",
            Some("ref/resource") if argument.is_some() => "uri",
            _ => {
                return Err(refuse(
                    "completion/complete needs params.ref of type ref/prompt or ref/resource, \
                     and params.argument with a name",
                ));
            }
        };
        let (value, named) = find_span(&message.bytes, span, member)
            .and_then(|value| Some((value, parse_json_string(value.of(&message.bytes))?)))
            .ok_or_else(|| refuse(format!("params.ref needs {member}, a string")))?;
        if member == "uri" {
            let template = all.is_template(&named);
            let kind = if template { ItemKind::ResourceTemplate } else { ItemKind::Resource };
            let owner = owner(call, kind, &named, all)?;
            return Ok(Self::kept(call, method, owner, value.of(&message.bytes)));
        }
        let route = all.prompts.get(&named).filter(|route| route.shown);
        let route = route.ok_or_else(|| missing(call, ItemKind::Prompt, &named))?;
        let (kind, annotations) = (ItemKind::Prompt, ToolAnnotations::default());
        let backend = call.item_backend(all, &route.backend);
        admitted(call, &Item { kind, name: &named, annotations, backend }, None)?;
        Ok(Self::renamed(call, method, value, route).decided_for(backend))
    }

    fn located(
        call: &Call,
        method: &'static str,
        all: &BackendCatalog,
    ) -> Result<Self, LookupError> {
        let message = &call.message;
        let text = message
            .text(Key::Uri)
            .ok_or_else(|| refuse(format!("{method} needs params.uri, a string")))?;
        let uri: Cow<'_, str> = text.read(&message.bytes);
        let owner = owner(call, ItemKind::Resource, &uri, all)?;
        let literal = text.span.of(&message.bytes);
        let mut target = Self::kept(call, method, owner, literal);
        if !uri.starts_with(UI_SCHEME) || !all.is_interface(&uri) {
            return Ok(target);
        }
        app::record_opened(call, &target.backend);
        if let Some(own) = all.own_uri(&uri) {
            target.alias = Some(target.literal);
            (target.message, target.literal) = app::with_own_uri(&message.bytes, text.span, own);
        }
        Ok(target)
    }

    /// Translates the message to the backend's own name.
    fn renamed(
        call: &Call,
        method: &'static str,
        span: Span,
        route: &Route<Arc<BackendHandle>>,
    ) -> Self {
        let bytes = &call.message.bytes;
        let message = if span.of(bytes) == route.name {
            bytes.clone()
        } else {
            let mut splice = Splice::new(bytes);
            splice.replace(span, &route.name[..]);
            splice.finish()
        };
        Self {
            backend: Arc::clone(&route.backend),
            method,
            literal: route.name.clone(),
            message,
            headers: Arc::clone(&route.headers),
            annotations: route.annotations.clone(),
            alias: None,
            decided: None,
            origin: call.origin,
        }
    }

    fn decided_for(self, backend: Option<ItemBackend<'_>>) -> Self {
        Self { decided: backend.map(|backend| backend.generation), ..self }
    }

    fn kept(
        call: &Call,
        method: &'static str,
        UriOwner { backend, decided }: UriOwner,
        literal: &[u8],
    ) -> Self {
        let message = call.message.bytes.clone();
        let literal = message.slice_ref(literal);
        let (headers, annotations) = (Arc::default(), LazyAnnotations::default());
        let (alias, origin) = (None, call.origin);
        Self { backend, method, literal, message, headers, annotations, alias, decided, origin }
    }

    /// Returns `true` if a repetition of the call has no additional effect.
    pub(crate) fn is_repeatable(&self) -> bool {
        let annotations = self.annotations.get();
        self.method != "tools/call"
            || annotations.read_only == Some(true)
            || annotations.idempotent == Some(true)
    }

    /// Builds the rejection of a failed call. It suggests to retry a tool only if a repetition is harmless.
    pub(crate) fn rejection(&self, error: &BoxError) -> Rejection {
        let repeatable = self.is_repeatable();
        if matches!(self.origin, Origin::Step) && is_too_large(error) {
            return rejection_of(self.backend.name(), &BackendError::StepOutput.into(), repeatable);
        }
        rejection_of(self.backend.name(), error, repeatable)
    }

    /// Builds the [`rejection`](Self::rejection) as the error message that ends the stream of `call`.
    pub(crate) fn failure(&self, call: &Call, error: &BoxError) -> Bytes {
        call.failure(&self.rejection(error))
    }

    /// Returns the backend's own name, or the URI.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        parse_json_string(&self.literal).expect("a target is named by a JSON string")
    }
}
