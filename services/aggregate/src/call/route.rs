//! Who answers a request, and the request as that backend understands it.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use vmcp_core::{Rejection, code};
use vmcp_wire::{Key, Span, Splice, find, unquote};

use super::Call;
use crate::backend::Link;
use crate::catalog::{ParamHeader, Route, Routes, check_headers};
use crate::hub::Everything;

/// Where a request goes.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) link: Arc<Link>,
    pub(crate) method: &'static str,
    /// The backend's own name, or the URI, as a JSON string literal.
    pub(crate) literal: Bytes,
    /// The message with that name in it; everything else is as the client wrote it.
    pub(crate) message: Bytes,
    pub(crate) headers: Arc<[ParamHeader]>,
}

impl Target {
    /// Finds the target of a request.
    pub(crate) async fn find(call: &Call, method: &'static str) -> Result<Self, Rejection> {
        let found = Self::look(call, method, &call.snapshot.look());
        match found {
            Err(Missing::Unknown(refusal)) => {
                let catalog = call.snapshot.catalog();
                // A backend whose first offer is still on its way may have it. Waiting is rare, and
                // its future is not to make every call larger.
                let snapshot = Box::pin(call.hub.settled(&call.snapshot)).await;
                let newest = snapshot.catalog();
                if Arc::ptr_eq(&catalog, &newest) {
                    return Err(refusal);
                }
                Self::look(call, method, &newest).map_err(Missing::into)
            }
            found => found.map_err(Missing::into),
        }
    }

    fn look(call: &Call, method: &'static str, all: &Everything) -> Result<Self, Missing> {
        match method {
            "tools/call" => Self::named(call, method, "tool", &all.tools),
            "prompts/get" => Self::named(call, method, "prompt", &all.prompts),
            "completion/complete" => Self::completion(call, method, all),
            _ => Self::located(call, method, all),
        }
    }

    fn named(
        call: &Call,
        method: &'static str,
        kind: &str,
        routes: &Routes<Arc<Link>>,
    ) -> Result<Self, Missing> {
        let message = &call.message;
        let Some(text) = message.text(Key::Name) else {
            return Err(refuse(format!("{method} needs params.name, a string")));
        };
        if message.param(Key::Arguments).is_some_and(|value| value.first() != Some(&b'{')) {
            return Err(refuse("params.arguments must be an object"));
        }
        let name = text.read(&message.bytes);
        let Some(route) = routes.get(&name).filter(|route| route.shown) else {
            return Err(Missing::Unknown(Rejection::unknown_name(kind, &shortened(&name))));
        };
        if call.session.is_none() {
            check_headers(&route.headers, &call.headers, message.param(Key::Arguments))
                .map_err(Missing::Refused)?;
        }
        Ok(Self::renamed(call, method, text.span, route))
    }

    /// What a completion is for: a prompt by its name, or a resource or template by its URI.
    fn completion(call: &Call, method: &'static str, all: &Everything) -> Result<Self, Missing> {
        let message = &call.message;
        let span =
            message.span(Key::Ref).ok_or_else(|| refuse("completion/complete needs params.ref"))?;
        let reference = span.of(&message.bytes);
        let kind = find(reference, "type").and_then(unquote).unwrap_or_default();
        let member = if kind == "ref/prompt" { "name" } else { "uri" };
        let argument = message.param(Key::Argument).and_then(|argument| find(argument, "name"));
        if !matches!(&*kind, "ref/prompt" | "ref/resource") || argument.is_none() {
            return Err(refuse(
                "completion/complete needs params.ref of type ref/prompt or ref/resource, \
                 and params.argument with a name",
            ));
        }
        let value = find(reference, member);
        let named = value
            .and_then(unquote)
            .ok_or_else(|| refuse(format!("params.ref needs {member}, a string")))?;
        if kind == "ref/resource" {
            let link = all.resource(&named).ok_or_else(|| unknown("resource", &named))?;
            return Ok(Self::kept(call, method, link, value.unwrap_or_default()));
        }
        let route = all.prompts.get(&named).filter(|route| route.shown);
        let route = route.ok_or_else(|| unknown("prompt", &named))?;
        let start = value.map_or(0, |value| value.as_ptr() as usize - reference.as_ptr() as usize);
        let start = span.start + u32::try_from(start).unwrap_or(0);
        let length = value.map_or(0, |value| u32::try_from(value.len()).unwrap_or(0));
        Ok(Self::renamed(call, method, Span { start, end: start + length }, route))
    }

    fn located(call: &Call, method: &'static str, all: &Everything) -> Result<Self, Missing> {
        let message = &call.message;
        let text = message
            .text(Key::Uri)
            .ok_or_else(|| refuse(format!("{method} needs params.uri, a string")))?;
        let uri: Cow<'_, str> = text.read(&message.bytes);
        match all.resource(&uri) {
            Some(link) => Ok(Self::kept(call, method, link, text.span.of(&message.bytes))),
            None => Err(Missing::Unknown(missing_resource(&uri, call.session.is_some()))),
        }
    }

    /// The message under the backend's own name.
    fn renamed(call: &Call, method: &'static str, span: Span, route: &Route<Arc<Link>>) -> Self {
        let bytes = &call.message.bytes;
        let message = if span.of(bytes) == route.name {
            bytes.clone()
        } else {
            let mut splice = Splice::new(bytes);
            splice.replace(span, &route.name[..]);
            splice.finish()
        };
        Self {
            link: Arc::clone(&route.link),
            method,
            literal: route.name.clone(),
            message,
            headers: Arc::clone(&route.headers),
        }
    }

    fn kept(call: &Call, method: &'static str, link: Arc<Link>, literal: &[u8]) -> Self {
        let message = call.message.bytes.clone();
        let literal = message.slice_ref(literal);
        Self { link, method, literal, message, headers: Arc::default() }
    }

    /// The backend's own name, or the URI.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        unquote(&self.literal).unwrap_or_default()
    }
}

/// Why there is no target.
enum Missing {
    /// It may appear yet.
    Unknown(Rejection),
    Refused(Rejection),
}

impl From<Missing> for Rejection {
    fn from(missing: Missing) -> Self {
        match missing {
            Missing::Unknown(refusal) | Missing::Refused(refusal) => refusal,
        }
    }
}

fn refuse(message: impl Into<Cow<'static, str>>) -> Missing {
    Missing::Refused(Rejection::invalid_params(message))
}

fn unknown(kind: &str, name: &str) -> Missing {
    Missing::Unknown(Rejection::unknown_name(kind, &shortened(name)))
}

/// The code for a resource that does not exist differs between the generations.
fn missing_resource(uri: &str, stateful: bool) -> Rejection {
    let uri = shortened(uri);
    let mut data = b"{\"uri\":".to_vec();
    vmcp_wire::quote(&uri, &mut data);
    data.push(b'}');
    let refusal = if stateful {
        let message = format!("unknown resource: {uri}");
        Rejection::new(http::StatusCode::OK, code::RESOURCE_NOT_FOUND, message)
    } else {
        Rejection::unknown_name("resource", &uri)
    };
    refusal.with_data(data)
}

/// Names are echoed, but not at any length.
fn shortened(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(256) {
        Some((end, _)) => Cow::Owned(format!("{}…", &name[..end])),
        None => Cow::Borrowed(name),
    }
}
