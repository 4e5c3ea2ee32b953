//! `notes`: stores notes, lists them as resources, and asks the user before it deletes one.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{
    BooleanSchema, CallToolRequestParams, CallToolResponse, ElicitRequestParams, ElicitationAction,
    ElicitationSchema, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, PrimitiveSchemaDefinition, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
    ResourceUpdatedNotificationParam, ServerCapabilities, ServerConfig, SubscribeRequestParams,
    Tool, ToolAnnotations, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, Peer, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::broadcast::{Receiver, Sender, error::RecvError};
use tokio::task::AbortHandle;

use crate::definition::{ToolResult, arguments, failed, read_only, server, text, tool, unknown};

pub(crate) const NAME: &str = "notes";

/// Maximum number of notes, and maximum length of a note, in characters.
const MAX_NOTES: usize = 100;
const MAX_NOTE_LENGTH: usize = 4000;

/// Maximum number of subscriptions of one session.
const MAX_SUBSCRIPTIONS: usize = 256;

/// Capacity of a session's queue of changes. A slower client misses the oldest ones.
const CHANGES: usize = 64;

/// Time limit for the response to an elicitation.
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(10);

/// Notes that all sessions share.
#[derive(Clone, Debug)]
pub(crate) struct SharedNotes {
    state: Arc<Mutex<State>>,
    changes: Sender<Change>,
}

#[derive(Debug, Default)]
struct State {
    notes: BTreeMap<u64, String>,
    last: u64,
}

/// Change that clients may subscribe to.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// The list of notes.
    List,
    /// The text of the note with this number.
    Note(u64),
}

/// Server of one session.
#[derive(Debug)]
pub(crate) struct Notes {
    shared: SharedNotes,
    /// Numbers of the notes that the client subscribed to.
    subscribed: Arc<Mutex<HashSet<u64>>>,
    /// Task that notifies the client.
    notifier: Mutex<Option<AbortHandle>>,
}

impl Default for SharedNotes {
    fn default() -> Self {
        Self { state: Arc::default(), changes: Sender::new(CHANGES) }
    }
}

impl SharedNotes {
    fn notify(&self, change: Change) {
        // An error means that no session listens.
        _ = self.changes.send(change);
    }
}

impl Notes {
    pub(crate) fn new(shared: SharedNotes) -> Self {
        Self { shared, subscribed: Arc::default(), notifier: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared.state)
    }

    fn add(&self, arguments: &Value) -> CallToolResponse {
        let Some(note) = note(arguments) else { return invalid_length() };
        let number = {
            let mut state = self.state();
            if state.notes.len() >= MAX_NOTES {
                return failed(format!("there are {MAX_NOTES} notes: delete one first"));
            }
            state.last += 1;
            let number = state.last;
            state.notes.insert(number, note);
            number
        };
        self.shared.notify(Change::List);
        text(format!("added note {number} as {}", uri_of(number)))
    }

    fn replace(&self, arguments: &Value) -> CallToolResponse {
        let Some(new) = note(arguments) else { return invalid_length() };
        let number = number(arguments);
        match self.state().notes.get_mut(&number) {
            Some(note) => *note = new,
            None => return not_found(number),
        }
        self.shared.notify(Change::Note(number));
        text(format!("replaced note {number}"))
    }

    async fn delete(
        &self,
        arguments: &Value,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResponse {
        let number = number(arguments);
        let Some(note) = self.state().notes.get(&number).cloned() else {
            return not_found(number);
        };
        let can_elicit = context.client_capabilities().is_some_and(|it| it.elicitation.is_some());
        if !can_elicit {
            return failed("deleting requires a client that can ask its user (elicitation)");
        }
        let start: String = note.chars().take(60).collect();
        let sure = BooleanSchema::new().title("Delete it");
        let form = ElicitationSchema::builder()
            .required_property("sure", PrimitiveSchemaDefinition::Boolean(sure))
            .build_unchecked();
        let request = ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: format!("Delete note {number}, \"{start}\"?"),
            requested_schema: form,
        };
        let response =
            context.peer.create_elicitation_with_timeout(request, Some(RESPONSE_TIMEOUT)).await;
        // An error or a timeout does not count as consent.
        let is_accepted = response.is_ok_and(|response| {
            response.action == ElicitationAction::Accept
                && response.content.is_some_and(|content| content["sure"] == true)
        });
        if !is_accepted {
            return text(format!("note {number} was not deleted"));
        }
        self.state().notes.remove(&number);
        self.shared.notify(Change::List);
        text(format!("deleted note {number}"))
    }

    fn list(&self) -> String {
        let state = self.state();
        if state.notes.is_empty() {
            return "there are no notes".to_owned();
        }
        let lines = state.notes.iter().map(|(number, note)| format!("{number}: {note}"));
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        if let Some(notifier) = lock(&self.notifier).take() {
            notifier.abort();
        }
    }
}

impl ServerHandler for Notes {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .build();
        let instructions = "Each note is a resource, note://NUMBER. Subscribe to one for notifications of changes.";
        server(NAME, capabilities, instructions)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let changes = self.shared.changes.subscribe();
        let task = tokio::spawn(notify_client(context.peer, changes, self.subscribed.clone()));
        let previous = lock(&self.notifier).replace(task.abort_handle());
        if let Some(previous) = previous {
            previous.abort();
        }
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools().into()))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> ToolResult {
        let arguments = arguments(params.arguments);
        match &*params.name {
            "add_note" => Ok(self.add(&arguments)),
            "list_notes" => Ok(text(self.list())),
            "rewrite_note" => Ok(self.replace(&arguments)),
            "delete_note" => Ok(self.delete(&arguments, &context).await),
            name => Err(unknown("tool", name)),
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resource = |number: &u64| {
            Resource::new(uri_of(*number), format!("note {number}")).with_mime_type("text/plain")
        };
        Ok(ListResourcesResult::with_all_items(self.state().notes.keys().map(resource).collect()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let template = ResourceTemplate::new("note://{number}", "note")
            .with_description("A note by its number")
            .with_mime_type("text/plain");
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let note = number_of(&params.uri).and_then(|it| self.state().notes.get(&it).cloned());
        let note = note.ok_or_else(|| resource_not_found(&params.uri))?;
        let contents = ResourceContents::text(note, params.uri).with_mime_type("text/plain");
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn subscribe(
        &self,
        params: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let number = number_of(&params.uri).ok_or_else(|| resource_not_found(&params.uri))?;
        let mut subscribed = lock(&self.subscribed);
        if subscribed.len() >= MAX_SUBSCRIPTIONS {
            let message = format!("at most {MAX_SUBSCRIPTIONS} subscriptions are possible");
            return Err(ErrorData::invalid_params(message, None));
        }
        subscribed.insert(number);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        params: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if let Some(number) = number_of(&params.uri) {
            lock(&self.subscribed).remove(&number);
        }
        Ok(())
    }
}

/// Notifies a client of changes until it disconnects.
async fn notify_client(
    peer: Peer<RoleServer>,
    mut changes: Receiver<Change>,
    subscribed: Arc<Mutex<HashSet<u64>>>,
) {
    loop {
        let sent = match changes.recv().await {
            Ok(Change::List) => peer.notify_resource_list_changed().await,
            Ok(Change::Note(number)) if lock(&subscribed).contains(&number) => {
                let params = ResourceUpdatedNotificationParam::new(uri_of(number));
                peer.notify_resource_updated(params).await
            }
            Ok(Change::Note(_)) | Err(RecvError::Lagged(_)) => Ok(()),
            Err(RecvError::Closed) => return,
        };
        if sent.is_err() {
            return;
        }
    }
}

fn uri_of(number: u64) -> String {
    format!("note://{number}")
}

fn number_of(uri: &str) -> Option<u64> {
    uri.strip_prefix("note://")?.parse().ok()
}

/// Returns the number of a tool's arguments. Numbers of notes begin at 1.
fn number(arguments: &Value) -> u64 {
    arguments["number"].as_u64().unwrap_or_default()
}

fn note(arguments: &Value) -> Option<String> {
    let note = arguments["text"].as_str()?;
    (!note.is_empty() && note.chars().nth(MAX_NOTE_LENGTH).is_none()).then(|| note.to_owned())
}

fn invalid_length() -> CallToolResponse {
    failed(format!("text must have 1 to {MAX_NOTE_LENGTH} characters"))
}

fn not_found(number: u64) -> CallToolResponse {
    failed(format!("note {number} does not exist"))
}

fn resource_not_found(uri: &str) -> ErrorData {
    ErrorData::resource_not_found("resource not found", Some(json!({"uri": uri})))
}

fn tools() -> [Tool; 4] {
    let note = json!({"type": "string", "minLength": 1, "maxLength": MAX_NOTE_LENGTH});
    let number = json!({"type": "integer", "minimum": 1});
    [
        tool(
            "add_note",
            "Add a note",
            "Adds a note and returns its number.",
            &json!({"text": note}),
        ),
        tool("list_notes", "List the notes", "Lists all notes with their numbers.", &json!({}))
            .with_annotations(read_only()),
        tool(
            "rewrite_note",
            "Replace a note",
            "Replaces the text of a note.",
            &json!({"number": number, "text": note}),
        ),
        tool(
            "delete_note",
            "Delete a note",
            "Deletes a note after the user has confirmed it.",
            &json!({"number": number}),
        )
        .with_annotations(ToolAnnotations::new().destructive(true).open_world(false)),
    ]
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
