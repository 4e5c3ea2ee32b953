use super::*;

fn read(bytes: &str) -> Head {
    head(bytes.as_bytes()).unwrap()
}

#[test]
fn tells_id_and_result_before_the_result_has_come() {
    let bytes =
        r#"{"jsonrpc":"2.0","id":"a","result":{"resultType":"input_required","content":[{"te"#;
    let head = read(bytes);
    assert_eq!(head.id.unwrap().of(bytes.as_bytes()), b"\"a\"");
    assert_eq!(head.outcome, Some(HeadOutcome::Result { start: 35, is_object: true }));
    assert!(head.result_type.unwrap().is(bytes.as_bytes(), "input_required"));
    assert_eq!(head.result_has_members, Some(true));
    assert!(!head.complete && head.method.is_none());
}

#[test]
fn never_takes_an_unfinished_value_for_a_finished_one() {
    let head = read(r#"{"jsonrpc":"2.0","id":12"#);
    assert_eq!(head.id, None);
    let head = read(r#"{"id":12,"error":{"code":-32"#);
    assert_eq!(head.outcome, Some(HeadOutcome::Error { start: 17, code: None }));
    let head = read(r#"{"id":12,"error":{"code":-32602,"#);
    assert_eq!(head.outcome, Some(HeadOutcome::Error { start: 17, code: Some(-32602) }));
    assert_eq!(read(r#"{"id":12,"result":"#).outcome, None);
    assert_eq!(read(r#"{"id":12,"result":{ "#).result_has_members, None);
    assert_eq!(read(r#"{"id":12,"result":{ }"#).result_has_members, Some(false));
}

#[test]
fn tells_messages_of_the_backend_from_answers() {
    let bytes = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"#;
    let head = read(bytes);
    assert!(head.method.unwrap().is(bytes.as_bytes(), "notifications/progress"));
    assert_eq!((head.id, head.outcome, head.complete), (None, None, false));
}

#[test]
fn sees_the_end() {
    assert!(read(r#"{"id":null,"result":1} "#).complete);
    assert!(!read(r#"{"id":null,"result":1"#).complete);
    assert!(!read("").complete);
    let null = read(r#"{"id":null,"result":1}"#);
    assert_eq!(null.id.unwrap().len(), 4);
}

#[test]
fn refuses_garbage_as_soon_as_it_comes() {
    let cases: [(&[u8], Fault); 11] = [
        (b"<html>", Fault::Syntax { at: 0 }),
        (b"{\"id\":1]", Fault::Syntax { at: 7 }),
        (b"{\"id\":1} x", Fault::Syntax { at: 9 }),
        (b"{\"a\":\"\xff", Fault::NotUtf8 { at: 6 }),
        (b"[", Fault::Batch),
        (b"null", Fault::NotAnObject),
        (b"{\"id\":1,\"id\":1", Fault::Duplicate { at: 8 }),
        (b"{\"id\":1,\"ID\":1", Fault::Disguised { key: "id", at: 8 }),
        (b"{\"id\":1.5,", Fault::BadId),
        (b"{\"result\":{},\"error\":", Fault::Ambiguous),
        (b"{\"result\":{\"resultType\":\"a\",\"resultType\":\"b\"", Fault::Duplicate { at: 28 }),
    ];
    for (bytes, fault) in cases {
        assert_eq!(head(bytes), Err(fault), "{}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn waits_for_the_rest_of_a_character() {
    assert!(head(b"{\"id\":\"\xe2\x82").is_ok());
}
