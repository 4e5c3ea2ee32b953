//! Bodies with invalid, multiple or ambiguous messages.

use std::fmt::Write;

use bytes::Bytes;

use super::{Case, Scene, check_all};

/// Returns a call with an id and this text inside the parameters.
fn call(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{{params}}}}}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_invalid_json_as_parse_error() {
    let deep = "[".repeat(200) + &"]".repeat(200);
    let cases = [
        Case::post("").gets(400, -32700, "send one JSON text"),
        Case::post("{").gets(400, -32700, "send one JSON text"),
        Case::post("nonsense").gets(400, -32700, "at byte 1"),
        Case::post(r#"{"jsonrpc":"2.0","id":7,"method":"ping""#)
            .gets(400, -32700, "send one JSON text")
            .with_id(7),
        Case::post(r#"{"jsonrpc":"2.0","id":"x","method":"ping"} {}"#)
            .gets(400, -32700, "send one JSON text")
            .with_id("x"),
        Case::post(r#"{"jsonrpc":"2.0","id":7,"method":"ping",}"#)
            .gets(400, -32700, "RFC 8259")
            .with_id(7),
        Case::post(Bytes::from_static(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"\xff\"}"))
            .gets(400, -32700, "UTF-8"),
        Case::post(call(r#""name":"\ud800""#)).gets(400, -32700, "surrogate").with_id(7),
        Case::post(call(&format!(r#""name":"a_echo","arguments":{{"a":{deep}}}"#)))
            .gets(400, -32700, "flatten")
            .with_id(7),
    ];
    check_all(Scene::start().await, cases).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_non_message_json_as_invalid_request() {
    let mut crowd = String::new();
    for number in 0..70 {
        write!(crowd, r#","m{number}":0"#).unwrap();
    }
    let cases = [
        ("[]", "send each message on its own", None),
        (r#"[{"jsonrpc":"2.0","id":7,"method":"ping"}]"#, "send each message on its own", None),
        ("7", "not a JSON object", None),
        (r#""ping""#, "not a JSON object", None),
        ("{}", "add \"jsonrpc\":\"2.0\"", None),
        (r#"{"id":7,"method":"ping"}"#, "add \"jsonrpc\":\"2.0\"", Some(7)),
        (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, "only JSON-RPC 2.0", Some(7)),
        (r#"{"jsonrpc":2.0,"id":7,"method":"ping"}"#, "only JSON-RPC 2.0", Some(7)),
        (r#"{"jsonrpc":"2.0","id":7}"#, "a request names its method", Some(7)),
        (r#"{"jsonrpc":"2.0","id":7,"method":3}"#, "not a string of 1 to 256", Some(7)),
        (r#"{"jsonrpc":"2.0","id":7,"method":""}"#, "not a string of 1 to 256", Some(7)),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, "a string or an integer", None),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, "a string or an integer", None),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, "a string or an integer", None),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":[]}"#, "send an object", Some(7)),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}"#, "send one of them", Some(7)),
        (r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{}}"#, "send one of them", Some(7)),
    ];
    let cases = cases.map(|(body, tells, id)| {
        let case = Case::post(body).gets(400, -32600, tells);
        if let Some(id) = id { case.with_id(id) } else { case }
    });
    let crowd = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"ping"{crowd}}}"#);
    let crowd = Case::post(crowd).gets(400, -32600, "into arguments").with_id(7);
    check_all(Scene::start().await, cases.into_iter().chain([crowd])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_duplicate_members_in_any_escaping() {
    let echo = r#""name":"a_echo""#;
    let meta = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#;
    let twice = [
        r#"{"jsonrpc":"2.0","id":7,"method":"ping","method":"ping"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":7,"method":"ping","\u006dethod":"tools/list"}"#.to_owned(),
        call(&format!(r#"{echo},"name":"a_slow""#)),
        call(&format!(r#"{echo},"n\u0061me":"a_slow""#)),
        call(&format!(r#"{echo},"arguments":{{}},"arguments":{{"a":1}}"#)),
        call(&format!(r#"{echo},"x":1,"x":2"#)),
        call(&format!(r#"{echo},"_meta":{{{meta},{meta}}}"#)),
        call(&format!(r#"{echo},"_meta":{{"x":1,"x":2}}"#)),
    ];
    let mut cases: Vec<Case> =
        twice.map(|body| Case::post(body).gets(400, -32600, "send it once").with_id(7)).into();
    // A message with two ids gets no response to either.
    let ids = r#"{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}"#;
    cases.push(Case::post(ids).gets(400, -32600, "send it once"));
    check_all(Scene::start().await, cases).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_members_with_ambiguous_names() {
    let echo = r#""name":"a_echo""#;
    let cases = [
        r#"{"jsonrpc":"2.0","id":7,"method":"ping","Method":"tools/list"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":7,"method":"ping","PARAMS":{}}"#.to_owned(),
        call(&format!(r#"{echo},"Name":"a_slow""#)),
        call(&format!(r#"{echo},"NAME":"a_slow""#)),
        call(&format!(r#"{echo},"name\u0000x":"a_slow""#)),
        call(&format!(r#"{echo},"Arguments":{{}}"#)),
        // Some parsers fold the Kelvin sign and the long s into letters.
        call(&format!(r#"{echo},"argument\u017f":{{}}"#)),
    ];
    let cases =
        cases.map(|body| Case::post(body).gets(400, -32600, "can be mistaken for").with_id(7));
    check_all(Scene::start().await, cases).await;
}
