use super::*;
use crate::{Key, MAX_MEMBERS, Said};

fn fault(message: &str) -> Fault {
    scan(message.as_bytes()).expect_err("has to be refused").fault
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
fn tells_empty_params_from_missing_ones() {
    let message = request("{ }");
    let Ok(Envelope::Request { params, .. }) = scan(message.as_bytes()) else { panic!() };
    assert!(params.is_empty() && params.span.is_some());
}

#[test]
fn reads_answers() {
    let cases = [
        (r#"{"jsonrpc":"2.0","id":-7,"result":{"a":1}}"#, Some("-7"), Some(r#"{"a":1}"#)),
        (r#"{"jsonrpc":"2.0","id":null,"result":[]}"#, None, Some("[]")),
        (r#"{"jsonrpc":"2.0","id":"x","error":{"code":1}}"#, Some("\"x\""), None),
        (r#"{"jsonrpc":"2.0","error":{"code":1}}"#, None, None),
    ];
    for (message, expected, result) in cases {
        let bytes = message.as_bytes();
        let Ok(Envelope::Answer { id, outcome }) = scan(bytes) else { panic!("{message}") };
        assert_eq!(id.map(|id| id.of(bytes)), expected.map(str::as_bytes));
        match (outcome, result) {
            (Outcome::Result(span), Some(result)) => assert_eq!(span.of(bytes), result.as_bytes()),
            (Outcome::Error(span), None) => assert_eq!(span.of(bytes), br#"{"code":1}"#),
            _ => panic!("{message}"),
        }
    }
}

#[test]
fn refuses_what_is_no_message() {
    let long = "m".repeat(MAX_METHOD + 1);
    let cases = [
        ("[]", Fault::Batch),
        (r#"[{"jsonrpc":"2.0","method":"a"}]"#, Fault::Batch),
        ("12", Fault::NotAnObject),
        ("\"a\"", Fault::NotAnObject),
        ("{}", Fault::MissingVersion),
        (r#"{"method":"a"}"#, Fault::MissingVersion),
        (r#"{"jsonrpc":2.0,"method":"a"}"#, Fault::WrongVersion),
        (r#"{"jsonrpc":"1.0","method":"a"}"#, Fault::WrongVersion),
        (r#"{"jsonrpc":"2.0"}"#, Fault::MissingMethod),
        (r#"{"jsonrpc":"2.0","id":1}"#, Fault::MissingMethod),
        (r#"{"jsonrpc":"2.0","method":""}"#, Fault::BadMethod),
        (r#"{"jsonrpc":"2.0","method":["a"]}"#, Fault::BadMethod),
        (&format!(r#"{{"jsonrpc":"2.0","method":"{long}"}}"#), Fault::BadMethod),
        (r#"{"jsonrpc":"2.0","method":"a","params":null}"#, Fault::BadParams),
        (r#"{"jsonrpc":"2.0","method":"a","params":[1]}"#, Fault::BadParams),
        (r#"{"jsonrpc":"2.0","method":"a","params":"x"}"#, Fault::BadParams),
        (r#"{"jsonrpc":"2.0","id":1,"method":"a","result":{}}"#, Fault::Ambiguous),
        (r#"{"jsonrpc":"2.0","id":1,"error":{},"result":{}}"#, Fault::Ambiguous),
        (r#"{"jsonrpc":"2.0","id":1,"params":{},"result":{}}"#, Fault::Ambiguous),
        (r#"{"jsonrpc":"2.0","result":{}}"#, Fault::BadId),
    ];
    for (message, expected) in cases {
        assert_eq!(fault(message), expected, "{message}");
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
            Err(Refused { fault: Fault::BadId, id: None }),
            "{id}"
        );
    }
}

#[test]
fn measures_an_escaped_method_by_its_value() {
    let method = "\\u0061".repeat(MAX_METHOD);
    assert!(scan(format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#).as_bytes()).is_ok());
    assert_eq!(fault(&format!(r#"{{"jsonrpc":"2.0","method":"{method}\n"}}"#)), Fault::BadMethod);
}

#[test]
fn refuses_text_that_is_no_json() {
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
        assert!(matches!(fault(text), Fault::Syntax { .. }), "{text}: {:?}", fault(text));
    }
    assert_eq!(fault(r#"{"a":1,x}"#), Fault::Syntax { at: 7 });
    assert_eq!(fault(r#"{"a":"#), Fault::Syntax { at: 5 });
}

#[test]
fn refuses_what_is_not_utf_8() {
    let refused = scan(b"{\"a\":\"\xff\"}").unwrap_err();
    assert_eq!(refused.fault, Fault::NotUtf8 { at: 6 });
    // A surrogate written as three bytes.
    assert!(scan(b"{\"a\":\"\xed\xa0\x80\"}").is_err());
}

#[test]
fn refuses_half_surrogate_pairs_anywhere() {
    for (string, at) in [
        (r"\ud800", 29),
        (r"x\udc00", 30),
        (r"\ud800x", 29),
        (r"\ud800\n", 29),
        (r"\uD834\uD834", 29),
    ] {
        let message = format!(r#"{{"params":{{"arguments":{{"a":"{string}"}}}}}}"#);
        assert_eq!(fault(&message), Fault::LoneSurrogate { at }, "{string}");
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
    assert_eq!(fault(&nested(127)), Fault::TooDeep);
    assert_eq!(fault(&"[".repeat(1_000_000)), Fault::TooDeep);
    let objects = request(&format!("{}1{}", r#"{"a":"#.repeat(127), "}".repeat(127)));
    assert!(scan(objects.as_bytes()).is_ok());
}

#[test]
fn refuses_a_duplicate_member() {
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
        assert!(matches!(fault(&message), Fault::Duplicate { .. }), "{message}");
    }
    assert_eq!(scan_params(br#"{"name":1,"name":2}"#), Err(Fault::Duplicate { at: 10 }));
}

#[test]
fn leaves_duplicates_outside_the_envelope_alone() {
    assert!(scan(request(r#"{"name":"a","arguments":{"x":1,"x":2}}"#).as_bytes()).is_ok());
}

#[test]
fn refuses_a_member_that_a_lenient_reader_takes_for_another() {
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
            Err(Refused { fault, .. }) => {
                assert_eq!(fault, Fault::Disguised { key, at: 56 }, "{member}");
            }
        }
    }
    assert_eq!(
        fault(r#"{"jsonrpc":"2.0","ID":1,"method":"a"}"#),
        Fault::Disguised { key: "id", at: 17 }
    );
    assert_eq!(
        fault(r#"{"jsonrpc":"2.0","method":"a","Method":"b"}"#),
        Fault::Disguised { key: "method", at: 30 }
    );
    assert_eq!(fault(&request(r#"{"ref":{"URI":"b"}}"#)), Fault::Disguised { key: "uri", at: 63 });
}

#[test]
fn allows_unknown_members_that_look_like_nothing_else() {
    let message =
        request(r#"{"names":1,"na me":1,"x-name":1,"näme":1,"":1,"\u0000name":1,"ta\u0073ks":{}}"#);
    assert!(scan(message.as_bytes()).is_ok());
}

#[test]
fn bounds_the_number_and_the_names_of_members() {
    let members = |count: usize| {
        (0..count).map(|index| format!("\"m{index}\":0")).collect::<Vec<_>>().join(",")
    };
    assert!(scan(request(&format!("{{{}}}", members(MAX_MEMBERS))).as_bytes()).is_ok());
    assert_eq!(
        fault(&request(&format!("{{{}}}", members(MAX_MEMBERS + 1)))),
        Fault::TooManyMembers
    );
    assert_eq!(
        fault(&format!(r#"{{"jsonrpc":"2.0","method":"a",{}}}"#, members(MAX_MEMBERS - 1))),
        Fault::TooManyMembers
    );
    assert!(scan(request(&format!(r#"{{"arguments":{{{}}}}}"#, members(1000))).as_bytes()).is_ok());
    let name = "n".repeat(crate::MAX_NAME);
    assert!(scan(request(&format!(r#"{{"{name}":1}}"#)).as_bytes()).is_ok());
    assert!(matches!(fault(&request(&format!(r#"{{"{name}n":1}}"#))), Fault::LongName { .. }));
}

#[test]
fn tells_the_id_of_a_refused_message_if_there_is_one() {
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
        let refused = scan(message.as_bytes()).unwrap_err();
        let id = refused.id.map(|id| id.of(message.as_bytes()));
        assert_eq!(id, expected.map(str::as_bytes), "{message}");
    }
}

#[test]
fn reads_params_that_stand_alone() {
    let object = br#" {"name":"a","arguments":{}} "#;
    let params = scan_params(object).unwrap();
    assert_eq!(params.get(Key::Name).unwrap().of(object), b"\"a\"");
    assert_eq!(scan_params(b"[]"), Err(Fault::BadParams));
    assert_eq!(scan_params(b"{} x"), Err(Fault::Syntax { at: 3 }));
    assert_eq!(scan_params(b""), Err(Fault::Syntax { at: 0 }));
    assert_eq!(scan_params(br#"{"NAME":1}"#), Err(Fault::Disguised { key: "name", at: 1 }));
}

#[test]
fn answers_with_the_codes_of_json_rpc() {
    assert_eq!(fault("{").code(), -32700);
    assert_eq!(fault(r#"{"a":"\ud800"}"#).code(), -32700);
    assert_eq!(fault("[]").code(), -32600);
    assert_eq!(fault(&request(r#"{"Name":1}"#)).code(), -32600);
}

#[test]
fn tells_what_a_request_says_of_its_client() {
    let message = request(
        r#"{"_meta":{"a":{"io.modelcontextprotocol/clientInfo":0},"io.modelcontextprotocol\/clientInfo":{"name":"n"},
        "io.modelcontextprotocol/protocolVersion":"v"},"io.modelcontextprotocol/clientCapabilities":{}}"#,
    );
    let Ok(Envelope::Request { params, .. }) = scan(message.as_bytes()) else { panic!() };
    let said = |said| params.said(said).map(|span| span.of(message.as_bytes()));
    assert_eq!(said(Said::ClientInfo), Some(&br#"{"name":"n"}"#[..]));
    assert_eq!(said(Said::ProtocolVersion), Some(&br#""v""#[..]));
    assert_eq!(said(Said::ClientCapabilities), None);
}
