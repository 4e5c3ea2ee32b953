use super::*;

fn read(bytes: &str) -> MessagePrefix {
    scan_prefix(bytes.as_bytes()).unwrap()
}

#[test]
fn finds_id_and_result_of_incomplete_message() {
    let bytes =
        r#"{"jsonrpc":"2.0","id":"a","result":{"resultType":"input_required","content":[{"te"#;
    let head = read(bytes);
    assert_eq!(head.id.unwrap().of(bytes.as_bytes()), b"\"a\"");
    assert_eq!(head.outcome, Some(PrefixOutcome::Result { start: 35, is_object: true }));
    assert!(head.result_type.unwrap().is(bytes.as_bytes(), "input_required"));
    assert_eq!(head.result_has_members, Some(true));
    assert!(!head.complete && head.method.is_none());
}

#[test]
fn ignores_incomplete_values() {
    let head = read(r#"{"jsonrpc":"2.0","id":12"#);
    assert_eq!(head.id, None);
    let head = read(r#"{"id":12,"error":{"code":-32"#);
    assert_eq!(head.outcome, Some(PrefixOutcome::Error { start: 17, code: None }));
    let head = read(r#"{"id":12,"error":{"code":-32602,"#);
    assert_eq!(head.outcome, Some(PrefixOutcome::Error { start: 17, code: Some(-32602) }));
    assert_eq!(read(r#"{"id":12,"result":"#).outcome, None);
    assert_eq!(read(r#"{"id":12,"result":{ "#).result_has_members, None);
    assert_eq!(read(r#"{"id":12,"result":{ }"#).result_has_members, Some(false));
}

#[test]
fn distinguishes_backend_messages_and_responses() {
    let bytes = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"#;
    let head = read(bytes);
    assert!(head.method.unwrap().is(bytes.as_bytes(), "notifications/progress"));
    assert_eq!((head.id, head.outcome, head.complete), (None, None, false));
}

#[test]
fn detects_the_end() {
    assert!(read(r#"{"id":null,"result":1} "#).complete);
    assert!(!read(r#"{"id":null,"result":1"#).complete);
    assert!(!read("").complete);
    let null = read(r#"{"id":null,"result":1}"#);
    assert_eq!(null.id.unwrap().len(), 4);
}

#[test]
fn rejects_invalid_bytes_immediately() {
    let cases: [(&[u8], ScanErrorKind); 11] = [
        (b"<html>", ScanErrorKind::Syntax { at: 0 }),
        (b"{\"id\":1]", ScanErrorKind::Syntax { at: 7 }),
        (b"{\"id\":1} x", ScanErrorKind::Syntax { at: 9 }),
        (b"{\"a\":\"\xff", ScanErrorKind::NotUtf8 { at: 6 }),
        (b"[", ScanErrorKind::Batch),
        (b"null", ScanErrorKind::NotAnObject),
        (b"{\"id\":1,\"id\":1", ScanErrorKind::Duplicate { at: 8 }),
        (b"{\"id\":1,\"ID\":1", ScanErrorKind::ConfusableName { key: "id", at: 8 }),
        (b"{\"id\":1.5,", ScanErrorKind::BadId),
        (b"{\"result\":{},\"error\":", ScanErrorKind::Ambiguous),
        (
            b"{\"result\":{\"resultType\":\"a\",\"resultType\":\"b\"",
            ScanErrorKind::Duplicate { at: 28 },
        ),
    ];
    for (bytes, kind) in cases {
        assert_eq!(scan_prefix(bytes), Err(kind), "{}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn waits_for_the_rest_of_a_character() {
    assert!(scan_prefix(b"{\"id\":\"\xe2\x82").is_ok());
}
