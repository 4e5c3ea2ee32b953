//! Authorization of single messages.

use std::borrow::Cow;

use vmcp_core::{
    CallerPermissions, Decision, Item, ItemKind, McpRequest, Rejection, ToolAnnotations,
};
use vmcp_wire::{Envelope, Key, elements, find, parse_json_string};

use crate::annotations::{AnnotationCache, WORST_CASE_ANNOTATIONS};

/// Maximum number of resources in one `subscriptions/listen`.
const MAX_SUBSCRIPTIONS: usize = 1024;

/// Kind of an authorized message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GateOutcome {
    /// A list request, whose response has to be filtered.
    List,
    Other,
}

/// Rejection of a message, with the reason if the policy denied it.
#[derive(Debug)]
pub(crate) struct GateRejection {
    pub(crate) rejection: Rejection,
    pub(crate) denied: Option<&'static str>,
}

/// Methods that every caller may use: they name no item.
const UNRESTRICTED_METHODS: [&str; 19] = [
    "initialize",
    "ping",
    "server/discover",
    "subscriptions/listen",
    "features/list",
    "roots/list",
    "logging/setLevel",
    "notifications/message",
    "notifications/initialized",
    "notifications/progress",
    "notifications/cancelled",
    "notifications/roots/list_changed",
    "notifications/tools/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/elicitation/complete",
    "notifications/tasks",
    "notifications/tasks/status",
];

/// Returns `true` if the response to `method` is a list of items.
pub(crate) fn is_list_method(method: &str) -> bool {
    matches!(method, "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list")
}

/// Returns `true` if a message with this method, empty for a response, requires the permissions of its caller.
pub(crate) fn requires_permissions(method: &str) -> bool {
    let is_unrestricted = method.is_empty() || UNRESTRICTED_METHODS.contains(&method);
    !is_unrestricted || method == "subscriptions/listen"
}

/// Authorizes `message` on behalf of a service that does not check permissions itself.
pub(crate) fn check_message(
    message: &McpRequest,
    permissions: &CallerPermissions,
    annotations: &AnnotationCache,
) -> Result<GateOutcome, GateRejection> {
    if matches!(message.envelope, Envelope::Response { .. }) {
        return Ok(GateOutcome::Other);
    }
    let gate = Gate { message, permissions };
    match &*message.method() {
        method if is_list_method(method) => return Ok(GateOutcome::List),
        "tools/call" => gate.check_tool(annotations)?,
        "prompts/get" => {
            let name = gate.string_param(Key::Name)?;
            gate.check_item(ItemKind::Prompt, &name, gate.arguments()?)?;
        }
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
            gate.check_item(ItemKind::Resource, &gate.string_param(Key::Uri)?, None)?;
        }
        "completion/complete" => gate.check_reference()?,
        "subscriptions/listen" => gate.check_subscriptions()?,
        method if UNRESTRICTED_METHODS.contains(&method) => {}
        _ => return Err(denied("unknown method")),
    }
    Ok(GateOutcome::Other)
}

struct Gate<'a> {
    message: &'a McpRequest,
    permissions: &'a CallerPermissions,
}

impl<'a> Gate<'a> {
    fn check_tool(&self, annotations: &AnnotationCache) -> Result<(), GateRejection> {
        let (name, arguments) = (self.string_param(Key::Name)?, self.arguments()?);
        let item =
            |annotations| Item { kind: ItemKind::Tool, name: &name, annotations, backend: None };
        if let Some(annotations) = annotations.get(&name) {
            return self.apply_decision(
                &item(annotations),
                self.permissions.authorize(&item(annotations), arguments),
            );
        }
        // Without annotations: a tool that is permitted both without annotations and with the worst-case ones is
        // permitted with whichever the server declares.
        for annotations in [ToolAnnotations::default(), WORST_CASE_ANNOTATIONS] {
            self.apply_decision(
                &item(annotations),
                self.permissions.authorize(&item(annotations), arguments),
            )?;
        }
        Ok(())
    }

    fn check_item(
        &self,
        kind: ItemKind,
        name: &str,
        arguments: Option<&[u8]>,
    ) -> Result<(), GateRejection> {
        let item = Item { kind, name, annotations: ToolAnnotations::default(), backend: None };
        self.apply_decision(&item, self.permissions.authorize(&item, arguments))
    }

    /// A completion reveals possible arguments, so it requires permission for its prompt or resource.
    fn check_reference(&self) -> Result<(), GateRejection> {
        let reference = self.message.param(Key::Ref).unwrap_or_default();
        let prompt = match find(reference, "type").and_then(parse_json_string).as_deref() {
            Some("ref/prompt") => true,
            Some("ref/resource") => false,
            _ => return Err(invalid("params.ref must be of type ref/prompt or ref/resource")),
        };
        let member = if prompt { "name" } else { "uri" };
        let name = find(reference, member).and_then(parse_json_string);
        let name = name.ok_or_else(|| invalid("params.ref must contain a name or uri string"))?;
        let kind = match prompt {
            true => ItemKind::Prompt,
            false if name.contains('{') => ItemKind::ResourceTemplate,
            false => ItemKind::Resource,
        };
        self.check_item(kind, &name, None)
    }

    /// Checks the resources that a stateless client subscribes to. Task ids are denied: they do not identify the tool
    /// of the task, which may be hidden.
    fn check_subscriptions(&self) -> Result<(), GateRejection> {
        let filter = self.message.param(Key::Notifications).unwrap_or_default();
        if find(filter, "taskIds").is_some_and(|ids| elements(ids).next().is_some()) {
            return Err(denied("task subscription: the tool of the task is unknown"));
        }
        let uris = find(filter, "resourceSubscriptions").unwrap_or_default();
        for (index, uri) in elements(uris).enumerate() {
            let uri = parse_json_string(uri).filter(|_| index < MAX_SUBSCRIPTIONS);
            let uri = uri.ok_or_else(|| {
                invalid("resourceSubscriptions must be an array of at most 1024 strings")
            })?;
            self.check_item(ItemKind::Resource, &uri, None)?;
        }
        Ok(())
    }

    fn apply_decision(&self, item: &Item<'_>, decision: Decision) -> Result<(), GateRejection> {
        match decision {
            Decision::Allow => Ok(()),
            Decision::Hide => Err(GateRejection {
                rejection: item.kind.not_found(item.name, self.message.generation),
                denied: Some("hidden from the caller"),
            }),
            Decision::Deny => Err(denied("denied with these arguments")),
            Decision::InsufficientScope(scopes) => Err(GateRejection {
                rejection: Rejection::insufficient_scope(scopes),
                denied: Some("the token lacks scopes"),
            }),
        }
    }

    fn string_param(&self, key: Key) -> Result<Cow<'a, str>, GateRejection> {
        let text = self.message.text(key).map(|text| text.read(&self.message.bytes));
        text.ok_or_else(|| invalid(format!("params.{} must be a string", key.name())))
    }

    fn arguments(&self) -> Result<Option<&'a [u8]>, GateRejection> {
        match self.message.param(Key::Arguments) {
            Some(value) if value.first() != Some(&b'{') => {
                Err(invalid("params.arguments must be an object"))
            }
            arguments => Ok(arguments),
        }
    }
}

fn invalid(message: impl Into<Cow<'static, str>>) -> GateRejection {
    GateRejection { rejection: Rejection::invalid_params(message), denied: None }
}

fn denied(reason: &'static str) -> GateRejection {
    GateRejection { rejection: Rejection::forbidden(), denied: Some(reason) }
}
