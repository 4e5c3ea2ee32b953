use super::*;

#[test]
fn parses_written_strings() {
    let all: String =
        (0..0x2000u32).filter_map(char::from_u32).chain("𝄞\u{10ffff}".chars()).collect();
    for text in ["", "plain", "\"\\/", &all] {
        let mut literal = Vec::new();
        write_json_string(text, &mut literal);
        assert_eq!(parse_json_string(&literal).unwrap(), text);
        assert!(is(&literal, text));
        assert_eq!(serde_json::from_slice::<String>(&literal).unwrap(), text);
    }
}

#[test]
fn borrows_strings_without_escapes() {
    assert!(matches!(parse_json_string(b"\"abc\""), Some(Cow::Borrowed("abc"))));
    assert!(matches!(parse_json_string(b"\"a\\u0062c\""), Some(Cow::Owned(text)) if text == "abc"));
}

#[test]
fn rejects_text_that_is_not_a_literal() {
    for text in [
        "",
        "\"",
        "a",
        "\"a",
        "\"a\" ",
        " \"a\"",
        "\"a\"b\"",
        r#""\ud800""#,
        "\"\u{1}\"",
        r#""\x""#,
    ] {
        assert_eq!(parse_json_string(text.as_bytes()), None, "{text}");
    }
    assert_eq!(parse_json_string(b"\"\xff\""), None);
}

#[test]
fn compares_unescaped_values() {
    assert!(is(br#""a\\b""#, r"a\b"));
    assert!(!is(br#""a\\b""#, r"a\\b"));
    assert!(is(br#""\ud834\udd1e""#, "𝄞"));
    assert!(!is(b"\"a\"", "ab") && !is(b"\"ab\"", "a"));
    assert!(!is(b"\"\xff\"", "\u{fffd}"));
}
