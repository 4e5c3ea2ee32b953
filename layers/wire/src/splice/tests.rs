use super::*;

fn span(text: &str, part: &str) -> Span {
    let start = text.find(part).unwrap();
    Span::new(start, start + part.len())
}

fn whole(text: &str) -> Span {
    Span::new(0, text.len())
}

fn edit(text: &str, edits: impl FnOnce(&mut Splice<'_>)) -> String {
    let mut splice = Splice::new(text.as_bytes());
    edits(&mut splice);
    String::from_utf8(splice.finish().to_vec()).unwrap()
}

#[test]
fn leaves_values_other_than_objects() {
    for text in ["null", "\"hi\"", "[1]", "[{}]", " 1", ""] {
        let set = edit(text, |splice| _ = splice.set_member(whole(text), "a", b"1"));
        let appended = edit(text, |splice| _ = splice.append_member(whole(text), "a", b"1"));
        assert_eq!((&*set, &*appended), (text, text));
    }
}

#[test]
fn returns_input_unchanged_without_edits() {
    assert_eq!(edit("{ }", |_| {}), "{ }");
}

#[test]
fn appends_members_before_trailing_white_space() {
    for (text, expected) in [
        ("{\"a\":1} \n\r\t", "{\"a\":1,\"b\":2} \n\r\t"),
        (" { } ", " { \"b\":2} "),
        ("\n{\"b\":1}\n", "\n{\"b\":2}\n"),
    ] {
        let edited = edit(text, |splice| _ = splice.set_member(whole(text), "b", b"2"));
        assert_eq!(edited, expected);
    }
}

#[test]
fn applies_edits_in_any_order() {
    let text = "abcdef";
    let edited = edit(text, |splice| {
        splice
            .replace(span(text, "ef"), &b"EF"[..])
            .insert(3, &b"1"[..])
            .replace(span(text, "b"), Vec::new())
            .insert(3, &b"2"[..])
            .insert(0, &b"<"[..])
            .insert(6, &b">"[..]);
    });
    assert_eq!(edited, "<ac12dEF>");
}

#[test]
fn later_of_overlapping_edits_wins() {
    let text = "abcdef";
    let edited = edit(text, |splice| {
        splice.replace(span(text, "abc"), &b"1"[..]).replace(span(text, "cd"), &b"2"[..]);
    });
    assert_eq!(edited, "ab2ef");
    let edited = edit(text, |splice| {
        splice
            .replace(span(text, "b"), &b"1"[..])
            .insert(3, &b"2"[..])
            .replace(whole(text), &b"3"[..]);
    });
    assert_eq!(edited, "3");
}

#[test]
fn clamps_positions_outside_the_message() {
    let edited = edit("ab", |splice| {
        splice.insert(9, &b"c"[..]).replace(Span { start: 7, end: 9 }, &b"d"[..]);
        splice.replace(Span { start: 1, end: 0 }, &b"e"[..]);
    });
    assert_eq!(edited, "eabcd");
}

#[test]
fn replaces_existing_member() {
    let text = r#"{ "\u0061" : 1.00 , "b":[] }"#;
    assert_eq!(
        edit(text, |splice| _ = splice.set_member(whole(text), "a", b"{}")),
        r#"{ "\u0061" : {} , "b":[] }"#
    );
    let twice = r#"{"a":1,"a":2,"b":3,"a":4}"#;
    assert_eq!(
        edit(twice, |splice| _ = splice.set_member(whole(twice), "a", b"5")),
        r#"{"a":5,"b":3}"#
    );
}

#[test]
fn appends_missing_members() {
    for (text, expected) in [
        ("{}", r#"{"x":1,"y\"":2}"#),
        ("{ }", r#"{ "x":1,"y\"":2}"#),
        (r#"{"a":1}"#, r#"{"a":1,"x":1,"y\"":2}"#),
    ] {
        let edited = edit(text, |splice| {
            splice.set_member(whole(text), "x", b"1").append_member(whole(text), "y\"", b"2");
        });
        assert_eq!(edited, expected);
    }
}

#[test]
fn replaces_appended_member() {
    let edited = edit("{}", |splice| {
        splice.set_member(whole("{}"), "x", b"0").set_member(whole("{}"), "xy", b"1");
        splice.set_member(whole("{}"), "x", b"2");
    });
    assert_eq!(edited, r#"{"xy":1,"x":2}"#);
}

#[test]
fn removes_members_with_their_commas() {
    let text = r#"{ "a":1, "b" : 2 ,"c":3 }"#;
    for (names, expected) in [
        ("a", r#"{ "b" : 2 ,"c":3 }"#),
        ("b", r#"{ "a":1 ,"c":3 }"#),
        ("c", r#"{ "a":1, "b" : 2 }"#),
        ("ab", r#"{ "c":3 }"#),
        ("ba", r#"{ "c":3 }"#),
        ("bc", r#"{ "a":1 }"#),
        ("cb", r#"{ "a":1 }"#),
        ("ac", r#"{ "b" : 2 }"#),
        ("abc", "{  }"),
        ("cab", "{  }"),
        ("x", text),
    ] {
        let edited = edit(text, |splice| {
            for name in names.split("").filter(|name| !name.is_empty()) {
                splice.remove_member(whole(text), name);
            }
        });
        assert_eq!(edited, expected, "{names}");
    }
}

#[test]
fn combines_edits_of_members() {
    let text = r#"{"a":1,"b":{"c":2}}"#;
    let object = whole(text);
    let inner = span(text, r#"{"c":2}"#);
    let edited = edit(text, |splice| {
        splice.remove_member(object, "a").append_member(object, "d", b"4");
        splice.remove_member(inner, "c").set_member(inner, "e", b"5");
    });
    assert_eq!(edited, r#"{"b":{"e":5},"d":4}"#);
    let edited = edit(text, |splice| {
        splice.set_member(object, "n", b"1").remove_member(object, "n");
        splice.remove_member(object, "a").remove_member(object, "b").set_member(object, "z", b"0");
    });
    assert_eq!(edited, r#"{"z":0}"#);
    let edited = edit(text, |splice| {
        splice.remove_member(object, "a").set_member(object, "a", b"9");
    });
    assert_eq!(edited, r#"{"a":9,"b":{"c":2}}"#);
}

#[test]
fn accepts_many_edits() {
    let text = "x".repeat(40);
    let edited = edit(&text, |splice| {
        for at in (0..40).rev() {
            splice.insert(at, &b"-"[..]);
        }
        splice.replace(Span { start: 0, end: 38 }, &b""[..]);
    });
    assert_eq!(edited, "--x-x");
}
