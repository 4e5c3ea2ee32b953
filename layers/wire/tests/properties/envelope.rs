//! The scanner, against serde_json and against lenient readers.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use vmcp_wire::{
    Envelope, Key, MessagePrefix, Outcome, Params, PrefixOutcome, ScanErrorKind, elements, find,
    members, parse_json_string, scan, scan_params, scan_prefix, validate,
};

use crate::reference::{Entries, PARSER_BEHAVIORS, accepts, reading};

/// Holds for any bytes.
pub(crate) fn check(bytes: &[u8]) {
    look_into(bytes);
    let valid = validate(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else {
        assert!(matches!(valid, Err(ScanErrorKind::NotUtf8 { .. })));
        assert!(scan(bytes).is_err());
        return;
    };
    // Stricter than serde_json on purpose.
    if let Err(ScanErrorKind::LoneSurrogate { .. } | ScanErrorKind::TooDeep) = valid {
        assert!(scan(bytes).is_err());
    } else {
        let theirs = serde_json::from_str::<IgnoredAny>(text);
        assert_eq!(valid.is_ok(), theirs.is_ok(), "{text:?}: {valid:?}, {theirs:?}");
        if let Some(accepts) = accepts(text) {
            assert_eq!(scan(bytes).is_ok(), accepts, "{text:?}: {:?}", scan(bytes));
        }
    }
    if let Ok(envelope) = scan(bytes) {
        assert_eq!(valid, Ok(()));
        check_readings(text, envelope);
        check_params(bytes, envelope);
    }
    check_heads(bytes);
}

/// A call built by serde_json around `arguments` is accepted, and all its parts are found.
pub(crate) fn check_call(name: &str, arguments: &str) {
    let name = serde_json::to_string(name).unwrap();
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"arguments":{arguments},"name":{name}}}}}"#
    );
    let Ok(Envelope::Request { params, .. }) = scan(call.as_bytes()) else { panic!("{call}") };
    assert_eq!(params.get(Key::Name).unwrap().of(call.as_bytes()), name.as_bytes());
    assert_eq!(
        params.get(Key::Arguments).unwrap().of(call.as_bytes()),
        arguments.trim().as_bytes()
    );
}

/// Functions that trust their input don't fail on any.
fn look_into(bytes: &[u8]) {
    for member in members(bytes) {
        assert!(bytes[member.key_offset..].starts_with(member.key.raw()));
        assert!(bytes[member.value_offset..].starts_with(member.value));
        assert!(member.key.is(&member.key.read()) || std::str::from_utf8(bytes).is_err());
    }
    let mut items = elements(bytes);
    while let Some(item) = items.next() {
        assert!(bytes[items.offset()..].starts_with(item));
    }
    _ = (find(bytes, "name"), scan_params(bytes));
    let theirs = std::str::from_utf8(bytes).ok().filter(|text| text.starts_with('"'));
    let theirs = theirs.and_then(|text| serde_json::from_str::<String>(text).ok());
    let ours = parse_json_string(bytes).map(Cow::into_owned);
    assert_eq!(ours, theirs.filter(|_| bytes.ends_with(b"\"")));
}

/// Every reader names the same method and the same members of `params`.
fn check_readings(text: &str, envelope: Envelope) {
    let bytes = text.as_bytes();
    let (method, params) = match envelope {
        Envelope::Request { method, params, .. } | Envelope::Notification { method, params } => {
            (method, params)
        }
        Envelope::Response { id, outcome } => {
            return check_response(text, id.map(|id| id.of(bytes)), outcome);
        }
    };
    for key in Key::ALL {
        let literal = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let ours = (
            Some(literal(method.span.of(bytes))),
            params.get(key).map(|span| literal(span.of(bytes))),
        );
        for behavior in &PARSER_BEHAVIORS {
            assert_eq!(
                ours,
                reading(text, key.name(), behavior),
                "who takes {}: {text}",
                behavior.name
            );
        }
        if let Some(value) = params.text(bytes, key) {
            let theirs: String = serde_json::from_slice(value.span.of(bytes)).unwrap();
            assert_eq!(value.read(bytes), theirs);
            assert!(value.is(bytes, &theirs) && !value.is(bytes, &format!("{theirs}x")));
            assert_eq!(value.escaped, value.span.of(bytes).contains(&b'\\'));
        }
    }
}

fn check_response(text: &str, id: Option<&[u8]>, outcome: Outcome) {
    let theirs = Entries::read(text).unwrap();
    let (name, span) = match outcome {
        Outcome::Result(span) => ("result", span),
        Outcome::Error(span) => ("error", span),
    };
    for behavior in &PARSER_BEHAVIORS {
        let pick = |name| theirs.pick(name, behavior).map(str::as_bytes);
        assert_eq!(id, pick("id").filter(|id| *id != b"null"));
        assert_eq!(Some(span.of(text.as_bytes())), pick(name));
    }
}

/// The standalone reader of `params` finds the same in the same object.
fn check_params(bytes: &[u8], envelope: Envelope) {
    let (Envelope::Request { params, .. } | Envelope::Notification { params, .. }) = envelope
    else {
        return;
    };
    let Some(span) = params.span else { return };
    let object = span.of(bytes);
    let alone = scan_params(object).unwrap();
    assert_eq!(alone.is_empty(), members(object).next().is_none());
    let values = |params: Params, bytes: &[u8]| {
        Key::ALL.map(|key| params.get(key).map(|span| span.of(bytes).to_vec()))
    };
    assert_eq!(values(alone, object), values(params, bytes));
}

/// Facts of the beginning of a message stay true when more arrives, and those of the whole are the scanner's.
fn check_heads(bytes: &[u8]) {
    let mut before = MessagePrefix::default();
    for end in 0..=bytes.len().min(400) {
        let Ok(now) = scan_prefix(&bytes[..end]) else {
            assert!(scan_prefix(bytes).is_err(), "an error disappeared");
            break;
        };
        let context = String::from_utf8_lossy(&bytes[..end]);
        assert!(before.id.is_none() || before.id == now.id, "{context}");
        assert!(before.method.is_none() || before.method == now.method, "{context}");
        assert!(before.result_type.is_none() || before.result_type == now.result_type, "{context}");
        let has_members = before.result_has_members;
        assert!(has_members.is_none() || has_members == now.result_has_members, "{context}");
        assert!(grew(before.outcome, now.outcome), "{context}");
        before = now;
    }
    let Ok(envelope) = scan(bytes) else { return };
    let head = match scan_prefix(bytes) {
        // Of `resultType` or `code`, which the scanner doesn't look for.
        Err(ScanErrorKind::Duplicate { .. }) => return,
        head => head.unwrap(),
    };
    assert!(head.complete);
    match envelope {
        Envelope::Request { id, method, .. } => {
            assert_eq!((head.id, head.method), (Some(id), Some(method)));
        }
        Envelope::Notification { method, .. } => {
            assert_eq!((head.id, head.method), (None, Some(method)));
        }
        Envelope::Response { id, outcome } => {
            assert_eq!(head.id.filter(|id| id.of(bytes) != b"null"), id);
            match (outcome, head.outcome) {
                (Outcome::Result(span), Some(PrefixOutcome::Result { start, is_object })) => {
                    assert_eq!((span.start, span.of(bytes)[0] == b'{'), (start, is_object));
                    let kind = find(span.of(bytes), "resultType").and_then(parse_json_string);
                    assert_eq!(head.result_type.map(|text| text.read(bytes)), kind);
                }
                (Outcome::Error(span), Some(PrefixOutcome::Error { start, code })) => {
                    assert_eq!(span.start, start);
                    let theirs = find(span.of(bytes), "code").filter(|code| *code != b"-0");
                    let theirs = theirs.and_then(|code| serde_json::from_slice(code).ok());
                    assert_eq!(code.filter(|code| *code != 0), theirs.filter(|code| *code != 0));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

fn grew(before: Option<PrefixOutcome>, now: Option<PrefixOutcome>) -> bool {
    match (before, now) {
        (None, _) => true,
        (
            Some(PrefixOutcome::Error { start, code: None }),
            Some(PrefixOutcome::Error { start: same, .. }),
        ) => start == same,
        (before, now) => before == now,
    }
}
