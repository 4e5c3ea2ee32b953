use super::*;
use crate::{Key, MAX_MEMBERS, MetaKey};

fn error_kind(message: &str) -> ScanErrorKind {
    scan(message.as_bytes()).expect_err("must be rejected").kind
}

fn request(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)
}

#[test]
fn reads_a_request_with_its_routing_members() {
    let message = br#" { "jsonrpc" : "2.0", "method":"tools/call","x":null,
        "params":{"_meta":{"progressToken":1},"arguments":{"a":[1,{}]},"name":"a\u0062","other":[]} ,"id": "q\"1" } "#;
    let Ok(Envelope::Request { id, method, params }) = scan(message) else { panic!("no request") };
    assert_eq!(id.of(message), br#""q\"1""#);
    assert!(method.is(message, "tools/call") && !method.escaped);
    let name = params.text(message, Key::Name).unwrap();
    assert!(name.escaped && name.is(message, "ab") && !name.is(message, "a\\u0062"));
    assert_eq!(name.read(message), "ab");
    assert_eq!(params.get(Key::Arguments).unwrap().of(message), br#"{"a":[1,{}]}"#);
    assert_eq!(params.get(Key::Meta).unwrap().of(message), br#"{"progressToken":1}"#);
    assert_eq!(params.get(Key::Uri), None);
    assert_eq!(params.text(message, Key::Arguments), None);
    assert!(!params.is_empty() && params.span.unwrap().of(message).ends_with(b"[]}"));
}

#[test]
fn finds_every_routing_member() {
    for key in Key::ALL {
        let message = request(&format!(r#"{{"{}":12}}"#, key.name()));
        let Ok(Envelope::Request { params, .. }) = scan(message.as_bytes()) else {
            panic!("{key:?}")
        };
        for other in Key::ALL {
            let found = params.get(other).map(|span| span.of(message.as_bytes()));
            assert_eq!(found, (key == other).then_some(&b"12"[..]));
        }
    }
}

#[test]
fn reads_a_notification_without_params() {
    let message = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let Ok(Envelope::Notification { method, params }) = scan(message) else { panic!() };
    assert_eq!(method.read(message), "notifications/initialized");
    assert!(params.is_empty() && params.span.is_none());
}

#[test]
fn distinguishes_empty_and_missing_params() {
    let message = request("{ }");
    let Ok(Envelope::Request { params, .. }) = scan(message.as_bytes()) else { panic!() };
    assert!(params.is_empty() && params.span.is_some());
}

#[test]
fn reads_responses() {
    let cases = [
        (r#"{"jsonrpc":"2.0","id":-7,"result":{"a":1}}"#, Some("-7"), Some(r#"{"a":1}"#)),
        (r#"{"jsonrpc":"2.0","id":null,"result":[]}"#, None, Some("[]")),
        (r#"{"jsonrpc":"2.0","id":"x","error":{"code":1}}"#, Some("\"x\""), None),
        (r#"{"jsonrpc":"2.0","error":{"code":1}}"#, None, None),
    ];
    for (message, expected, result) in cases {
        let bytes = message.as_bytes();
        let Ok(Envelope::Response { id, outcome }) = scan(bytes) else { panic!("{message}") };
        assert_eq!(id.map(|id| id.of(bytes)), expected.map(str::as_bytes));
        match (outcome, result) {
            (Outcome::Result(span), Some(result)) => assert_eq!(span.of(bytes), result.as_bytes()),
            (Outcome::Error(span), None) => assert_eq!(span.of(bytes), br#"{"code":1}"#),
            _ => panic!("{message}"),
        }
    }
}

#[test]
fn rejects_invalid_messages() {
    let long = "m".repeat(MAX_METHOD + 1);
    let cases = [
        ("[]", ScanErrorKind::Batch),
        (r#"[{"jsonrpc":"2.0","method":"a"}]"#, ScanErrorKind::Batch),
        ("12", ScanErrorKind::NotAnObject),
        ("\"a\"", ScanErrorKind::NotAnObject),
        ("{}", ScanErrorKind::MissingVersion),
        (r#"{"method":"a"}"#, ScanErrorKind::MissingVersion),
        (r#"{"jsonrpc":2.0,"method":"a"}"#, ScanErrorKind::WrongVersion),
        (r#"{"jsonrpc":"1.0","method":"a"}"#, ScanErrorKind::WrongVersion),
        (r#"{"jsonrpc":"2.0"}"#, ScanErrorKind::MissingMethod),
        (r#"{"jsonrpc":"2.0","id":1}"#, ScanErrorKind::MissingMethod),
        (r#"{"jsonrpc":"2.0","method":""}"#, ScanErrorKind::BadMethod),
        (r#"{"jsonrpc":"2.0","method":["a"]}"#, ScanErrorKind::BadMethod),
        (&format!(r#"{{"jsonrpc":"2.0","method":"{long}"}}"#), ScanErrorKind::BadMethod),
        (r#"{"jsonrpc":"2.0","method":"a","params":null}"#, ScanErrorKind::BadParams),
        (r#"{"jsonrpc":"2.0","method":"a","params":[1]}"#, ScanErrorKind::BadParams),
        (r#"{"jsonrpc":"2.0","method":"a","params":"x"}"#, ScanErrorKind::BadParams),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","result":{}}"#, ScanErrorKind::Ambiguous),
        (r#"{"jsonrpc":"2.0","id":1,"error":{},"result":{}}"#, ScanErrorKind::Ambiguous),
        (r#"{"jsonrpc":"2.0","id":1,"params":{},"result":{}}"#, ScanErrorKind::Ambiguous),
        (r#"{"jsonrpc":"2.0","result":{}}"#, ScanErrorKind::BadId),
    ];
    for (message, expected) in cases {
        assert_eq!(error_kind(message), expected, "{message}");
    }
}

#[test]
fn takes_strings_and_integers_as_ids() {
    for id in ["0", "-1", "\"\"", "\"a\"", "12345678901234567890123"] {
        let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a"}}"#);
        let Ok(Envelope::Request { id: span, .. }) = scan(message.as_bytes()) else {
            panic!("{id}")
        };
        assert_eq!(span.of(message.as_bytes()), id.as_bytes());
    }
    let long = format!("\"{}\"", "x".repeat(MAX_ID));
    for id in ["null", "1.0", "1e3", "true", "{}", "[1]", &long] {
        let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"a"}}"#);
        assert_eq!(
            scan(message.as_bytes()),
            Err(ScanError { kind: ScanErrorKind::BadId, id: None }),
            "{id}"
        );
    }
}

#[test]
fn measures_an_escaped_method_by_its_value() {
    let method = "\\u0061".repeat(MAX_METHOD);
    assert!(scan(format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#).as_bytes()).is_ok());
    assert_eq!(
        error_kind(&format!(r#"{{"jsonrpc":"2.0","method":"{method}\n"}}"#)),
        ScanErrorKind::BadMethod
    );
}

#[test]
fn rejects_text_that_is_not_json() {
    for text in [
        "",
        " ",
        "{",
        r#"{"a":1,}"#,
        r#"{"a"}"#,
        r#"{"a":}"#,
        "{a:1}",
        r#"{"a":1}}"#,
        r#"{"a":1} x"#,
        "\u{feff}{}",
        r#"{"a":01}"#,
        r#"{"a":1.}"#,
        r#"{"a":.5}"#,
        r#"{"a":+1}"#,
        r#"{"a":1e}"#,
        r#"{"a":-}"#,
        r#"{"a":tru}"#,
        r#"{"a":NaN}"#,
        r#"{"a":'x'}"#,
        r#"{"a":"\x"}"#,
        r#"{"a":"\u12g4"}"#,
        "{\"a\":\"\u{1}\"}",
        "{\"a\":\"\n\"}",
        r#"{"a":[1 2]}"#,
        r#"{"a":[1}"#,
        r#"{"a":{"b":1]}"#,
        r#"{"a":[1,]}"#,
        r#"{"a":"x"#,
        "\u{c}{}",
        "{}\0",
    ] {
        assert!(
            matches!(error_kind(text), ScanErrorKind::Syntax { .. }),
            "{text}: {:?}",
            error_kind(text)
        );
    }
    assert_eq!(error_kind(r#"{"a":1,x}"#), ScanErrorKind::Syntax { at: 7 });
    assert_eq!(error_kind(r#"{"a":"#), ScanErrorKind::Syntax { at: 5 });
}

#[test]
fn rejects_text_that_is_not_utf_8() {
    let error = scan(b"{\"a\":\"\xff\"}").unwrap_err();
    assert_eq!(error.kind, ScanErrorKind::NotUtf8 { at: 6 });
    // A surrogate written as three bytes.
    assert!(scan(b"{\"a\":\"\xed\xa0\x80\"}").is_err());
}

#[test]
fn rejects_lone_surrogates() {
    for (string, at) in [
        (r"\ud800", 29),
        (r"x\udc00", 30),
        (r"\ud800x", 29),
        (r"\ud800\n", 29),
        (r"\uD834\uD834", 29),
    ] {
        let message = format!(r#"{{"params":{{"arguments":{{"a":"{string}"}}}}}}"#);
        assert_eq!(error_kind(&message), ScanErrorKind::LoneSurrogate { at }, "{string}");
    }
    let whole = request(r#"{"name":"\ud834\uDD1E"}"#);
    let Ok(Envelope::Request { params, .. }) = scan(whole.as_bytes()) else { panic!() };
    assert_eq!(params.text(whole.as_bytes(), Key::Name).unwrap().read(whole.as_bytes()), "𝄞");
}

#[test]
fn reads_128_levels_and_no_more() {
    // The message and `params` are two of them.
    let nested = |levels: usize| {
        request(&format!(r#"{{"arguments":{}{}}}"#, "[".repeat(levels), "]".repeat(levels)))
    };
    assert!(scan(nested(126).as_bytes()).is_ok());
    assert_eq!(error_kind(&nested(127)), ScanErrorKind::TooDeep);
    assert_eq!(error_kind(&"[".repeat(1_000_000)), ScanErrorKind::TooDeep);
    let objects = request(&format!("{}1{}", r#"{"a":"#.repeat(127), "}".repeat(127)));
    assert!(scan(objects.as_bytes()).is_ok());
}

#[test]
fn rejects_duplicate_members() {
    let cases = [
        r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"a","m\u0065thod":"b"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"a","x":1,"y":2,"x":3}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{},"params":{}}"#.to_owned(),
        request(r#"{"name":"a","name":"a"}"#),
        request(r#"{"n\u0061me":"a","name":"b"}"#),
        request(r#"{"x":1,"\u0078":2}"#),
        request(r#"{"\u0078":1,"x":2}"#),
        request(r#"{"x":1,"y":2,"\u007a":3,"z":4}"#),
        request(r#"{"x":1,"y":2,"\u007a":3,"y":4}"#),
        request(r#"{"_meta":{"a/b":1,"a\/b":2}}"#),
        request(r#"{"ref":{"type":"ref/prompt","name":"a","name":"b"}}"#),
    ];
    for message in cases {
        assert!(matches!(error_kind(&message), ScanErrorKind::Duplicate { .. }), "{message}");
    }
    assert_eq!(scan_params(br#"{"name":1,"name":2}"#), Err(ScanErrorKind::Duplicate { at: 10 }));
}

#[test]
fn accepts_duplicates_outside_the_envelope() {
    assert!(scan(request(r#"{"name":"a","arguments":{"x":1,"x":2}}"#).as_bytes()).is_ok());
}

#[test]
fn rejects_confusable_member_names() {
    for (member, key) in [
        ("Name", "name"),
        ("NAME", "name"),
        (r"nam\u0045", "name"),
        (r"name\u0000", "name"),
        (r"Name\u0000x", "name"),
        ("argument\u{17f}", "arguments"),
        (r"argument\u017F", "arguments"),
        ("u\u{131}", ""),
        ("ur\u{131}", "uri"),
        ("UR\u{130}", "uri"),
        ("progre\u{df}Token", "progressToken"),
        ("progressTo\u{212a}en", "progressToken"),
        ("reque\u{fb06}Id", "requestId"),
        ("noti\u{fb01}cations", "notifications"),
        ("_META", "_meta"),
        ("taskid", "taskId"),
        ("tas\u{212a}Id", "taskId"),
        (r"taskId\u0000", "taskId"),
        ("Task", "task"),
    ] {
        let message = request(&format!(r#"{{"{member}":"x"}}"#));
        match scan(message.as_bytes()) {
            Ok(_) => assert_eq!(key, "", "{member}"),
            Err(ScanError { kind, .. }) => {
                assert_eq!(kind, ScanErrorKind::ConfusableName { key, at: 56 }, "{member}");
            }
        }
    }
    assert_eq!(
        error_kind(r#"{"jsonrpc":"2.0","ID":1,"method":"a"}"#),
        ScanErrorKind::ConfusableName { key: "id", at: 17 }
    );
    assert_eq!(
        error_kind(r#"{"jsonrpc":"2.0","method":"a","Method":"b"}"#),
        ScanErrorKind::ConfusableName { key: "method", at: 30 }
    );
    assert_eq!(
        error_kind(&request(r#"{"ref":{"URI":"b"}}"#)),
        ScanErrorKind::ConfusableName { key: "uri", at: 63 }
    );
}

#[test]
fn accepts_unknown_member_names() {
    let message =
        request(r#"{"names":1,"na me":1,"x-name":1,"näme":1,"":1,"\u0000name":1,"ta\u0073ks":{}}"#);
    assert!(scan(message.as_bytes()).is_ok());
}

#[test]
fn limits_number_and_names_of_members() {
    let members = |count: usize| {
        (0..count).map(|index| format!("\"m{index}\":0")).collect::<Vec<_>>().join(",")
    };
    assert!(scan(request(&format!("{{{}}}", members(MAX_MEMBERS))).as_bytes()).is_ok());
    assert_eq!(
        error_kind(&request(&format!("{{{}}}", members(MAX_MEMBERS + 1)))),
        ScanErrorKind::TooManyEnvelopeMembers
    );
    assert_eq!(
        error_kind(&format!(r#"{{"jsonrpc":"2.0","method":"a",{}}}"#, members(MAX_MEMBERS - 1))),
        ScanErrorKind::TooManyEnvelopeMembers
    );
    assert!(scan(request(&format!(r#"{{"arguments":{{{}}}}}"#, members(1000))).as_bytes()).is_ok());
    let name = "n".repeat(crate::MAX_NAME);
    assert!(scan(request(&format!(r#"{{"{name}":1}}"#)).as_bytes()).is_ok());
    assert!(matches!(
        error_kind(&request(&format!(r#"{{"{name}n":1}}"#))),
        ScanErrorKind::NameTooLong { .. }
    ));
}

#[test]
fn returns_the_id_of_rejected_messages() {
    let cases = [
        (r#"{"jsonrpc":"2.0","method":"","id":7}"#, Some("7")),
        (r#"{"jsonrpc":"2.0","method":"a","params":1,"id":"x"}"#, Some("\"x\"")),
        (r#"{"id":7,"jsonrpc":"2.0","method":"a""#, Some("7")),
        (r#"{"id":7,"id":7,"jsonrpc":"2.0","method":"a"}"#, None),
        (r#"{"id":7,"\u0069d":8,"jsonrpc":"2.0","method":"a"}"#, None),
        (r#"{"id":{},"jsonrpc":"2.0","method":"a"}"#, None),
        (r#"[{"id":7}]"#, None),
    ];
    for (message, expected) in cases {
        let error = scan(message.as_bytes()).unwrap_err();
        let id = error.id.map(|id| id.of(message.as_bytes()));
        assert_eq!(id, expected.map(str::as_bytes), "{message}");
    }
}

#[test]
fn reads_params_without_envelope() {
    let object = br#" {"name":"a","arguments":{}} "#;
    let params = scan_params(object).unwrap();
    assert_eq!(params.get(Key::Name).unwrap().of(object), b"\"a\"");
    assert_eq!(scan_params(b"[]"), Err(ScanErrorKind::BadParams));
    assert_eq!(scan_params(b"{} x"), Err(ScanErrorKind::Syntax { at: 3 }));
    assert_eq!(scan_params(b""), Err(ScanErrorKind::Syntax { at: 0 }));
    assert_eq!(
        scan_params(br#"{"NAME":1}"#),
        Err(ScanErrorKind::ConfusableName { key: "name", at: 1 })
    );
}

#[test]
fn errors_have_json_rpc_codes() {
    assert_eq!(error_kind("{").code(), -32700);
    assert_eq!(error_kind(r#"{"a":"\ud800"}"#).code(), -32700);
    assert_eq!(error_kind("[]").code(), -32600);
    assert_eq!(error_kind(&request(r#"{"Name":1}"#)).code(), -32600);
}

#[test]
fn finds_client_members_of_meta() {
    let message = request(
        r#"{"_meta":{"a":{"io.modelcontextprotocol/clientInfo":0},"io.modelcontextprotocol\/clientInfo":{"name":"n"},
        "io.modelcontextprotocol/protocolVersion":"v"},"io.modelcontextprotocol/clientCapabilities":{}}"#,
    );
    let Ok(Envelope::Request { params, .. }) = scan(message.as_bytes()) else { panic!() };
    let said = |said| params.meta(said).map(|span| span.of(message.as_bytes()));
    assert_eq!(said(MetaKey::ClientInfo), Some(&br#"{"name":"n"}"#[..]));
    assert_eq!(said(MetaKey::ProtocolVersion), Some(&br#""v""#[..]));
    assert_eq!(said(MetaKey::ClientCapabilities), None);
}
