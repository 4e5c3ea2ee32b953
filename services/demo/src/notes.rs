//! `notes`: stores notes, lists them as resources, and asks the user before it deletes one.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use vmcp_core::code;

use crate::mcp_server::{ClientChannel, McpServer, RpcError, failed, text, tool};
use crate::stateful::ElicitationResult;

/// Maximum number of notes, and maximum length of a note, in characters.
const MAX_NOTES: usize = 100;
const MAX_NOTE_LENGTH: usize = 4000;

#[derive(Debug, Default)]
pub(crate) struct Notes(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    notes: BTreeMap<u64, String>,
    last: u64,
}

impl McpServer for Notes {
    const NAME: &'static str = "notes";
    const INSTRUCTIONS: &'static str =
        "Each note is a resource, note://NUMBER. Subscribe to one to hear when it is rewritten.";

    fn capabilities() -> Value {
        json!({"tools": {}, "resources": {"subscribe": true, "listChanged": true}})
    }

    async fn handle(
        &self,
        method: &str,
        params: &Value,
        client: &ClientChannel,
    ) -> Result<Value, RpcError> {
        let uri = params["uri"].as_str().unwrap_or_default();
        match method {
            "tools/list" => Ok(json!({"tools": tools()})),
            "tools/call" => self.call(params, client).await,
            "resources/list" => Ok(json!({"resources": self.resources()})),
            "resources/templates/list" => Ok(json!({"resourceTemplates": [{
                "uriTemplate": "note://{number}",
                "name": "note",
                "description": "A note by its number",
                "mimeType": "text/plain",
            }]})),
            "resources/read" => self.read(uri),
            "resources/subscribe" => subscribe(uri, client, true),
            "resources/unsubscribe" => subscribe(uri, client, false),
            _ => Err(RpcError::unknown_method(method)),
        }
    }
}

impl Notes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn call(&self, params: &Value, client: &ClientChannel) -> Result<Value, RpcError> {
        let arguments = &params["arguments"];
        let number = arguments["number"].as_u64().unwrap_or_default();
        match params["name"].as_str() {
            Some("add_note") => Ok(self.add(arguments, client)),
            Some("list_notes") => Ok(text(self.list())),
            Some("rewrite_note") => Ok(self.rewrite(number, arguments, client)),
            Some("delete_note") => Ok(self.delete(number, client).await),
            other => Err(RpcError::invalid(format!("no tool {}", other.unwrap_or_default()))),
        }
    }

    fn add(&self, arguments: &Value, client: &ClientChannel) -> Value {
        let Some(note) = note(arguments) else { return too_long() };
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
        if let Some(session) = &client.session {
            session.list_changed("resources");
        }
        text(format!("note {number} is kept, as note://{number}"))
    }

    fn rewrite(&self, number: u64, arguments: &Value, client: &ClientChannel) -> Value {
        let Some(new) = note(arguments) else { return too_long() };
        match self.state().notes.get_mut(&number) {
            Some(note) => *note = new,
            None => return failed(format!("there is no note {number}")),
        }
        if let Some(session) = &client.session {
            session.updated(&format!("note://{number}"));
        }
        text(format!("note {number} is rewritten"))
    }

    async fn delete(&self, number: u64, client: &ClientChannel) -> Value {
        let Some(note) = self.state().notes.get(&number).cloned() else {
            return failed(format!("there is no note {number}"));
        };
        let Some(session) = &client.session else { return failed("there is no session") };
        let start: String = note.chars().take(60).collect();
        let request = format!("Delete note {number}, \"{start}\"?");
        let form = json!({
            "type": "object",
            "properties": {"sure": {"type": "boolean", "title": "Delete it"}},
            "required": ["sure"],
        });
        match session.elicit(&client.messages, &request, &form).await {
            ElicitationResult::Accept(content) if content["sure"] == true => {
                self.state().notes.remove(&number);
                session.list_changed("resources");
                text(format!("note {number} is deleted"))
            }
            ElicitationResult::Accept(_) | ElicitationResult::Decline => {
                text(format!("note {number} stays"))
            }
            ElicitationResult::Unsupported => {
                failed("deleting needs a client whose user can be asked (elicitation)")
            }
        }
    }

    fn list(&self) -> String {
        let state = self.state();
        if state.notes.is_empty() {
            return "there are no notes".to_owned();
        }
        let lines = state.notes.iter().map(|(number, note)| format!("{number}: {note}"));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn resources(&self) -> Vec<Value> {
        let resource = |number: &u64| {
            json!({
                "uri": format!("note://{number}"),
                "name": format!("note {number}"),
                "mimeType": "text/plain",
            })
        };
        self.state().notes.keys().map(resource).collect()
    }

    fn read(&self, uri: &str) -> Result<Value, RpcError> {
        let number = uri.strip_prefix("note://").and_then(|number| number.parse().ok());
        let note = number.and_then(|number: u64| self.state().notes.get(&number).cloned());
        let note = note.ok_or_else(|| RpcError {
            code: code::RESOURCE_NOT_FOUND,
            message: "there is no such note".to_owned(),
        })?;
        Ok(json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": note}]}))
    }
}

fn subscribe(uri: &str, client: &ClientChannel, wanted: bool) -> Result<Value, RpcError> {
    let session =
        client.session.as_ref().ok_or_else(|| RpcError::invalid("there is no session"))?;
    session.subscribe(uri, wanted)?;
    Ok(json!({}))
}

fn note(arguments: &Value) -> Option<String> {
    let note = arguments["text"].as_str()?;
    (!note.is_empty() && note.chars().nth(MAX_NOTE_LENGTH).is_none()).then(|| note.to_owned())
}

fn too_long() -> Value {
    failed(format!("text must have 1 to {MAX_NOTE_LENGTH} characters"))
}

fn tools() -> [Value; 4] {
    let note = json!({"type": "string", "minLength": 1, "maxLength": MAX_NOTE_LENGTH});
    let number = json!({"type": "integer", "minimum": 1});
    let mut list =
        tool("list_notes", "Show the notes", "All notes with their numbers.", &json!({}));
    list["annotations"] = json!({"readOnlyHint": true, "openWorldHint": false});
    let mut delete = tool(
        "delete_note",
        "Delete a note",
        "Throws a note away, after its user was asked.",
        &json!({"number": number}),
    );
    delete["annotations"] = json!({"destructiveHint": true, "openWorldHint": false});
    [
        tool(
            "add_note",
            "Keep a note",
            "Keeps a note and tells its number.",
            &json!({"text": note}),
        ),
        list,
        tool(
            "rewrite_note",
            "Rewrite a note",
            "Replaces the text of a note.",
            &json!({"number": number, "text": note}),
        ),
        delete,
    ]
}
