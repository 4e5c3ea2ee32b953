use super::*;

#[test]
fn returns_members_in_order_with_offsets() {
    let object = br#" { "a" : 1 , "b\n":[ 2 ],"a":{"c":null} } "#;
    let found: Vec<_> = members(object)
        .map(|member| {
            assert!(object[member.key_offset..].starts_with(member.key.raw()));
            assert!(object[member.value_offset..].starts_with(member.value));
            (member.key.read().into_owned(), std::str::from_utf8(member.value).unwrap())
        })
        .collect();
    let expected = [("a", "1"), ("b\n", "[ 2 ]"), ("a", r#"{"c":null}"#)];
    assert_eq!(found, expected.map(|(key, value)| (key.to_owned(), value)));
}

#[test]
fn returns_elements_in_order_with_offsets() {
    let array = b"[ 1 ,\"]\",{\"a\":[]} ]";
    let mut items = elements(array);
    for (value, offset) in [(&b"1"[..], 2), (b"\"]\"", 5), (b"{\"a\":[]}", 9)] {
        assert_eq!((items.next(), items.offset()), (Some(value), offset));
    }
    assert_eq!((items.next(), items.next()), (None, None));
    assert_eq!(elements(b"[]").count(), 0);
}

#[test]
fn finds_the_first_member_by_its_unescaped_name() {
    let object = br#"{"\u0061":1,"a":2}"#;
    assert_eq!(find(object, "a"), Some(&b"1"[..]));
    assert_eq!(find(object, "b"), None);
}

#[test]
fn finds_the_ranges_of_elements() {
    let text = br#"{"a":[ 1,"b" ,{}]}"#;
    let array = find_span(text, Span::whole(text), "a").unwrap();
    let elements: Vec<_> = element_spans(text, array).map(|element| element.of(text)).collect();
    assert_eq!(elements, [&b"1"[..], b"\"b\"", b"{}"]);
    assert_eq!(element_spans(text, Span::whole(text)).count(), 0);
}

#[test]
fn finds_the_range_of_a_value() {
    let text = br#" [{"\u0061": {"b" :12}}]"#;
    let object = Span::new(2, text.len() - 1);
    let inner = find_span(text, object, "a").unwrap();
    assert_eq!(inner.of(text), br#"{"b" :12}"#);
    assert_eq!(find_span(text, inner, "b").unwrap().of(text), b"12");
    assert_eq!(find_span(text, inner, "a"), None);
}

#[test]
fn recognizes_confusable_names() {
    let resembles =
        |object: &str| members(object.as_bytes()).next().unwrap().key.resembles("tasks");
    for alike in ["tasks", "Tasks", r"ta\u0073ks", r"TASKS\u0000x", "ta\u{17f}ks", "tas\u{212a}s"] {
        assert!(resembles(&format!("{{\"{alike}\":1}}")), "{alike}");
    }
    for other in ["task", "tasks ", r"tasks\u0001", "täsks", ""] {
        assert!(!resembles(&format!("{{\"{other}\":1}}")), "{other}");
    }
}

#[test]
fn has_no_members_of_other_values() {
    for bytes in [&b""[..], b"[", b"{", b"1", b"null", b"{\"a\"", b"{\"a\":}", b"{,}", b"\xff"] {
        assert_eq!(members(bytes).count(), 0);
    }
    assert_eq!(members(b"{\"a\":1,\"b\"").count(), 1);
    assert_eq!(members(b"{\"a\":1 \"b\":2}").count(), 1);
    assert_eq!(elements(b"{\"a\":1}").count(), 0);
    assert_eq!(elements(b"[1,").count(), 1);
}

#[test]
fn validates_any_value() {
    for text in ["1", "-0.5e+7", " \"a\" ", "[]", "{\"a\":[true,false,null]}", "[[],{},[{}]]"] {
        assert_eq!(validate(text.as_bytes()), Ok(()), "{text}");
    }
    assert_eq!(validate(b"[1,2"), Err(ScanErrorKind::Syntax { at: 4 }));
    assert_eq!(validate(b"1 2"), Err(ScanErrorKind::Syntax { at: 2 }));
}
