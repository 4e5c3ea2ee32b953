//! Capabilities of clients: the extensions of MCP that the gateway bridges, and those that server requests require.

use std::borrow::Cow;

use bytes::Bytes;
use memchr::{memchr, memchr2_iter};
use vmcp_core::{McpRequest, Rejection};
use vmcp_wire::{Envelope, Key, Member, MetaKey, Params, Span, Splice, find, members, scan};

/// Tasks (`io.modelcontextprotocol/tasks`, revision 2026-07-28).
pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";

/// MCP Apps (`io.modelcontextprotocol/ui`).
pub(crate) const UI: &str = "io.modelcontextprotocol/ui";

/// Client capabilities required by requests about tasks.
pub(crate) const TASKS_REQUIRED: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

/// Extensions bridged between a stateless client and a stateless backend.
pub(crate) const BRIDGED: &[&str] = &[TASKS, UI];

/// Extensions bridged if the client or the backend has a session.
pub(crate) const BRIDGED_IN_SESSIONS: &[&str] = &[UI];

/// Capability `tasks` of 2025-11-25, which is not bridged.
const OLD_TASKS: &str = "tasks";

const EXTENSIONS: &str = "extensions";

/// Returns a client's capabilities without extensions that are not bridged, and without `tasks` of 2025-11-25.
///
/// A backend that sees such an extension could send a response that the client cannot follow up through the gateway. Members
/// that a backend could mistake for one of these are removed too, as are duplicates.
pub(crate) fn bridged<'a>(capabilities: &'a [u8], bridged: &[&str]) -> Cow<'a, [u8]> {
    if !may_be_stripped(capabilities) {
        return Cow::Borrowed(capabilities);
    }
    let mut extensions = None;
    let mut kept = true;
    for member in members(capabilities).filter(is_stripped) {
        let first = member.key.is(EXTENSIONS) && extensions.is_none();
        kept &= first && are_bridged(member.value, bridged);
        extensions = extensions.or(first.then_some(member.value));
    }
    if kept {
        return Cow::Borrowed(capabilities);
    }
    let mut out = vec![b'{'];
    for member in members(capabilities).filter(|member| !is_stripped(member)) {
        append(&mut out, member.key.raw(), member.value);
    }
    let extensions = extensions.map(|extensions| only(extensions, bridged));
    if let Some(extensions) = extensions.filter(|extensions| extensions.len() > 2) {
        append(&mut out, br#""extensions""#, &extensions);
    }
    out.push(b'}');
    Cow::Owned(out)
}

/// Returns `true` if capabilities may have a member to strip. This is cheaper than parsing the members, which most requests do
/// not need. Escapes and non-ASCII letters count, because they may spell such a name differently.
fn may_be_stripped(capabilities: &[u8]) -> bool {
    // Each name is searched for by its rarest letter.
    let has = |name: &str, letter: u8, place: usize| {
        memchr2_iter(letter, letter.to_ascii_uppercase(), capabilities).any(|at| {
            let start = at.checked_sub(place);
            let part = start.and_then(|start| capabilities.get(start..start + name.len()));
            part.is_some_and(|part| part.eq_ignore_ascii_case(name.as_bytes()))
        })
    };
    !capabilities.is_ascii()
        || memchr(b'\\', capabilities).is_some()
        || has(EXTENSIONS, b'x', 1)
        || has(OLD_TASKS, b'k', 3)
}

/// Returns `true` if a backend may interpret the member as a capability to strip.
fn is_stripped(member: &Member<'_>) -> bool {
    member.key.resembles(EXTENSIONS) || member.key.resembles(OLD_TASKS)
}

/// Returns `true` if all members of `extensions` may stay.
fn are_bridged(extensions: &[u8], bridged: &[&str]) -> bool {
    let mut count = 0;
    let each = members(extensions).all(|member| {
        count += 1;
        bridged.iter().any(|name| member.key.is(name))
    });
    let distinct = || bridged.iter().filter(|name| find(extensions, name).is_some()).count();
    extensions.first() == Some(&b'{') && each && (count < 2 || count == distinct())
}

/// Returns an object with the first member of each of these names.
fn only(extensions: &[u8], names: &[&str]) -> Vec<u8> {
    let mut out = vec![b'{'];
    for name in names {
        if let Some(member) = members(extensions).find(|member| member.key.is(name)) {
            append(&mut out, member.key.raw(), member.value);
        }
    }
    out.push(b'}');
    out
}

fn append(object: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    if object.len() > 1 {
        object.push(b',');
    }
    object.extend_from_slice(key);
    object.push(b':');
    object.extend_from_slice(value);
}

/// Returns the id and the parameters of a request that was scanned before. Since then, only values may have been replaced and
/// members removed, so its limits still hold.
pub(crate) fn rescan(message: &[u8]) -> (Span, Params) {
    let request = match scan(message) {
        Ok(Envelope::Request { id, params, .. }) => Some((id, params)),
        Ok(_) | Err(_) => None,
    };
    request.expect("a valid request stays valid when values are replaced")
}

/// Returns the request `message` with its client's capabilities filtered by [`bridged`].
pub(crate) fn strip(message: Bytes, extensions: &[&str]) -> Bytes {
    let (_, params) = rescan(&message);
    let Some(span) = params.meta(MetaKey::ClientCapabilities) else { return message };
    let Cow::Owned(capabilities) = bridged(span.of(&message), extensions) else { return message };
    let mut splice = Splice::new(&message);
    splice.replace(span, capabilities);
    splice.finish()
}

/// Returns a session's request without members that sessions do not bridge: extensions declared by the request itself, and
/// `task`, with which a request of 2025-11-25 asks to run as a task. `message` is the outgoing request.
pub(crate) fn for_session(request: &McpRequest, message: &Bytes) -> Bytes {
    let mut message = message.clone();
    if must_strip(request, BRIDGED_IN_SESSIONS) {
        message = strip(message, BRIDGED_IN_SESSIONS);
    }
    if request.span(Key::Task).is_some() {
        message = without_task(message);
    }
    message
}

fn without_task(message: Bytes) -> Bytes {
    let (_, params) = rescan(&message);
    let Some(object) = params.span else { return message };
    let mut splice = Splice::new(&message);
    splice.remove_member(object, Key::Task.name());
    splice.finish()
}

/// Returns `true` if the capabilities declared by the request itself have to be stripped.
pub(crate) fn must_strip(request: &McpRequest, extensions: &[&str]) -> bool {
    let declared = request.params().and_then(|params| params.meta(MetaKey::ClientCapabilities));
    declared
        .is_some_and(|span| matches!(bridged(span.of(&request.bytes), extensions), Cow::Owned(_)))
}

/// Returns `true` if the request's client declares an extension.
pub(crate) fn declares(request: &McpRequest, extension: &str) -> bool {
    let declared = request.params().and_then(|params| params.meta(MetaKey::ClientCapabilities));
    let extensions = declared.and_then(|span| find(span.of(&request.bytes), EXTENSIONS));
    extensions
        .and_then(|extensions| find(extensions, extension))
        .is_some_and(|settings| settings.first() == Some(&b'{'))
}

/// Returns the client capability that a server request requires.
pub(crate) fn required_capability(method: &str) -> Option<&'static str> {
    match method {
        "elicitation/create" => Some("elicitation"),
        "sampling/createMessage" => Some("sampling"),
        "roots/list" => Some("roots"),
        _ => None,
    }
}

/// Returns the rejection of a request that needs the tasks extension.
pub(crate) fn tasks_required() -> Rejection {
    let message = "tasks need the client capability extensions[\"io.modelcontextprotocol/tasks\"]";
    Rejection::missing_capability(TASKS_REQUIRED, message)
}

#[cfg(test)]
mod tests {
    use vmcp_core::Generation;

    use super::*;

    fn stripped(capabilities: &str, extensions: &[&str]) -> String {
        let capabilities = bridged(capabilities.as_bytes(), extensions).into_owned();
        vmcp_wire::validate(&capabilities).unwrap();
        String::from_utf8(capabilities).unwrap()
    }

    #[test]
    fn detects_escaped_or_folded_extension_names() {
        for text in [r#"{"Tasks":1}"#, r#"{"ta\u0073ks":1}"#, r#"{"ta\u{17f}ks":1}"#, r#"{"é":1}"#]
        {
            let text = text.replace("\\u{17f}", "\u{17f}");
            assert!(may_be_stripped(text.as_bytes()), "{text}");
        }
        assert!(!may_be_stripped(br#"{"task":1,"elicitation":{}}"#));
    }

    #[test]
    fn keeps_bridged_extensions() {
        for (capabilities, extensions) in [
            (r#"{"extensions":{"io.modelcontextprotocol/ui":{"mimeTypes":["a"]}}}"#, BRIDGED),
            (r#"{ "roots" : {}, "extensions" : {"io.modelcontextprotocol\/tasks":{}} }"#, BRIDGED),
            (r#"{"extensions":{"io.modelcontextprotocol/ui":{}}}"#, BRIDGED_IN_SESSIONS),
            (r#"{"extensions":{},"experimental":{"tasks":{},"extensions":{"x":1}}}"#, BRIDGED),
            ("{}", BRIDGED),
            ("[]", BRIDGED),
        ] {
            let kept = bridged(capabilities.as_bytes(), extensions);
            assert!(matches!(kept, Cow::Borrowed(_)), "{capabilities}");
        }
    }

    #[test]
    fn strips_unbridged_extensions() {
        for (capabilities, expected) in [
            (
                r#"{"a":1.0,"extensions":{"com.example/x":{},"io.modelcontextprotocol/ui":{"m":[]}}}"#,
                r#"{"a":1.0,"extensions":{"io.modelcontextprotocol/ui":{"m":[]}}}"#,
            ),
            (r#"{"extensions":{"IO.modelcontextprotocol/ui":{}},"b":{}}"#, r#"{"b":{}}"#),
            (r#"{"extensions":7}"#, "{}"),
            (r#"{"tasks":{"list":{}},"elicitation":{}}"#, r#"{"elicitation":{}}"#),
            (r#"{"ta\u0073ks":{},"TASKS":{},"tasks\u0000x":{},"tasksx":{}}"#, r#"{"tasksx":{}}"#),
            (
                r#"{"extensions":{"io.modelcontextprotocol/ui":{}},"Extensions":{"x":{}}}"#,
                r#"{"extensions":{"io.modelcontextprotocol/ui":{}}}"#,
            ),
            (
                r#"{"extensions":{"io.modelcontextprotocol/ui":{"n":1}},"extensions":{"x":{}}}"#,
                r#"{"extensions":{"io.modelcontextprotocol/ui":{"n":1}}}"#,
            ),
            (
                r#"{"extensions":{"io.modelcontextprotocol/ui":1,"io.modelcontextprotocol/ui":2}}"#,
                r#"{"extensions":{"io.modelcontextprotocol/ui":1}}"#,
            ),
        ] {
            assert_eq!(stripped(capabilities, BRIDGED), expected);
        }
        let tasks = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
        assert_eq!(stripped(tasks, BRIDGED_IN_SESSIONS), "{}");
    }

    fn request(capabilities: &str) -> McpRequest {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"x","_meta":{{"io.modelcontextprotocol/clientCapabilities":{capabilities}}}}}}}"#
        );
        let bytes = Bytes::from(text);
        let envelope = scan(&bytes).unwrap();
        McpRequest { bytes, envelope, generation: Generation::Stateless }
    }

    #[test]
    fn strips_requests_in_place() {
        let declared = request(r#"{"extensions":{"com.example/x":{}},"roots":{}}"#);
        assert!(must_strip(&declared, BRIDGED));
        let expected = request(r#"{"roots":{}}"#);
        assert!(!must_strip(&expected, BRIDGED));
        assert_eq!(strip(declared.bytes, BRIDGED), expected.bytes);
        assert_eq!(strip(expected.bytes.clone(), BRIDGED), expected.bytes);
    }

    #[test]
    fn finds_declared_extension() {
        assert!(declares(&request(TASKS_REQUIRED), TASKS));
        assert!(!declares(&request(TASKS_REQUIRED), UI));
        for settings in ["null", "true", "[]"] {
            let capabilities = TASKS_REQUIRED.replace("{}}}", &format!("{settings}}}}}"));
            assert!(!declares(&request(&capabilities), TASKS), "{settings}");
        }
    }
}
