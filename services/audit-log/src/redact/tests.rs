use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const CANARY: &str = "c4n4ry";

fn clean(text: &str) -> String {
    redact_text(text)
}

#[test]
fn redacts_members_with_sensitive_names() {
    let text = json!({
        "name": "deploy",
        "arguments": {
            "dbPassword": CANARY,
            "API_KEY": [CANARY, {"a": CANARY}],
            "credentials": {"user": CANARY, "nested": [1, CANARY]},
            "privateNumber": 4711,
            "city": "Bern",
        },
    })
    .to_string();
    let written = clean(&text);
    assert!(!written.contains(CANARY) && !written.contains("4711"), "{written}");
    let read: Value = serde_json::from_str(&written).unwrap();
    assert_eq!(read["arguments"]["city"], "Bern");
    assert_eq!(read["arguments"]["API_KEY"], "[redacted]");
    assert_eq!(read["arguments"]["privateNumber"], "[redacted]");
}

#[test]
fn redacts_names_with_escapes() {
    assert_eq!(
        clean(r#"{"pass\u0077ord" : "c4n4ry", "x":1}"#),
        r#"{"pass\u0077ord":"[redacted]", "x":1}"#
    );
}

#[test]
fn redacts_json_in_strings() {
    let mut text = json!({"token": CANARY, "city": "Bern"}).to_string();
    for _ in 0..3 {
        text = json!({"content": [{"type": "text", "text": text}]}).to_string();
        let written = clean(&text);
        assert!(!written.contains(CANARY), "{written}");
        assert!(written.contains("Bern"), "{written}");
        serde_json::from_str::<Value>(&written).unwrap();
    }
    for _ in 0..9 {
        text = json!({"text": text}).to_string();
    }
    assert!(!clean(&text).contains(CANARY));
}

#[test]
fn redacts_tokens_in_text() {
    for text in [
        "Authorization: Bearer c4n4ry-x.y_z~+/==, next",
        "authorization: bEARER   c4n4ry",
        "https://host/path?access_token=c4n4ry&x=1",
        "got eyJhbGciOiJub25lIn0.c4n4ryeyJh.c4n4ry!",
        r#"data: {"headers":["Bearer c4n4ry"]}"#,
        "client_secret=c4n4ry",
        "password: c4n4ry",
        "password = c4n4ry",
        "password:\tc4n4ry",
        "db:\n  password: 'c4n4ry and more'\n  port: 1",
        "password: \"c4n4ry and more\"",
        "secret='c4n4ry",
        "Authorization: Basic c4n4ry==",
        "proxy-authorization: basic  c4n4ry",
        "postgres://bob:c4n4ry@db.example:5432/x",
        "redis://:c4n4ry@cache",
    ] {
        let written = clean(text);
        assert!(!written.contains(CANARY), "{written}");
        assert!(written.contains(REDACTED), "{written}");
    }
    for harmless in ["http://host:8080/a@b", "see //x: y@z", "a: b", "token:", "token ''", "it's"] {
        assert_eq!(clean(harmless), harmless);
    }
    let harmless = "the bearer of bad news, key to success = work";
    assert_eq!(clean("token ring"), "token ring");
    assert_eq!(clean(harmless), harmless.replace("of", REDACTED));
}

/// Returns the excerpt of the first `limit` bytes of `text`.
fn first(text: impl AsRef<[u8]>, limit: usize) -> String {
    excerpt(&PayloadExcerpt::new(text.as_ref(), limit))
}

#[test]
fn marks_truncated_excerpts() {
    assert_eq!(first("abc", 3), "abc");
    assert_eq!(first("abcd", 3), "abc…[cut]");
    assert_eq!(first("abü", 3), "ab…[cut]");
    assert_eq!(first(r#"{"key":1}"#, 9), "{\"key\":\"[…[cut]");
    assert_eq!(first(b"a\xFFb", 9), "a\u{FFFD}b");
}

#[test]
fn messages_are_bounded() {
    let first = |text: &str, limit| message(&PayloadExcerpt::new(text.as_bytes(), limit));
    assert_eq!(first(&"ü".repeat(999), 256), "ü".repeat(128));
    assert_eq!(first(&"ü".repeat(999), 255), "ü".repeat(127));
    assert_eq!(first("no Bearer abc", 256), "no Bearer [redacted]");
    assert_eq!(first("no Bearer abc", 13), "no Bearer [re");
    let quoting = r#"invalid: {"password":"c4n4ry"} at 'x"#;
    assert_eq!(first(quoting, 256), quoting.replace(CANARY, REDACTED));
}

fn json_with_secrets() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(1)),
        Just(json!(null)),
        "[a-z\"\\\\{}\\[\\]:, \u{e9}]{0,12}".prop_map(Value::from),
        "(token|key)[:= '\"@/]{0,4}[a-z'\"@/ ]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            ("[a-z\"\\\\ ]{0,6}", inner.clone()).prop_map(|(name, value)| json!({
                name: value.clone(),
                "Secret": {"deep": [value, CANARY]},
                "my token": CANARY,
            })),
            inner.prop_map(
                |value| json!({"text": json!({"passWord": CANARY, "v": value}).to_string()})
            ),
        ]
    })
}

proptest! {
    #[test]
    fn redacts_secrets_in_truncated_text(value in json_with_secrets(), at in 0.0..=1.0_f64) {
        let text = value.to_string();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let at = (text.len() as f64 * at) as usize;
        let written = first(text, at);
        prop_assert!(!written.contains(CANARY), "{}", written);
    }

    #[test]
    fn redacted_json_stays_valid(value in json_with_secrets()) {
        let written = redact_text(&value.to_string());
        prop_assert!(serde_json::from_str::<Value>(&written).is_ok(), "{}", written);
    }

    #[test]
    fn accepts_any_text(text in ".{0,80}", limit in 0_usize..40) {
        prop_assert!(first(text, limit).len() <= limit + TRUNCATION_MARK.len());
    }
}
