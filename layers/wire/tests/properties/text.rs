//! Generated JSON and event streams, spelled in every way that the grammars allow and in some that they don't.

use std::fmt::Write as _;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use vmcp_wire::Key;

/// Any JSON text.
pub(crate) fn value() -> impl Strategy<Value = String> + Clone {
    let leaf = prop_oneof![
        select(vec![
            "null",
            "true",
            "false",
            "0",
            "-0",
            "1",
            "-12",
            "1.50",
            "1E400",
            "2e-3",
            "98765432109876543210"
        ])
        .prop_map(str::to_owned),
        literal("[a-z\"\\\\/\u{7f}é𝄞\n]{0,12}"),
        literal(".{30,90}"),
    ];
    leaf.boxed().prop_recursive(4, 24, 5, |inner| {
        let array = (vec(inner.clone(), 0..5), space())
            .prop_map(|(items, space)| format!("[{space}{}]", items.join(&format!("{space},"))));
        prop_oneof![array, object(inner)]
    })
}

/// An object with such values; members may stand twice.
pub(crate) fn object(
    value: impl Strategy<Value = String> + 'static,
) -> impl Strategy<Value = String> {
    let key = prop_oneof![
        literal("[a-c]"),
        literal("[a-zé\n]{0,4}"),
        routing_key(),
        Just("\"resultType\"".to_owned())
    ];
    let member = (key, space(), value);
    (vec(member, 0..6), space()).prop_map(|(members, space)| join(members, &space))
}

/// Something like a message: most are valid, many are not.
pub(crate) fn message() -> impl Strategy<Value = String> {
    let params =
        vec((routing_key(), space(), prop_oneof![3 => value(), 1 => object(value())]), 0..5);
    let params = (params, space()).prop_map(|(members, space)| join(members, &space));
    let method =
        select(vec!["tools/call", "prompts/get", "notifications/progress", "tools\\/call", "ä"]);
    let member =
        |name: &'static str, value: BoxedStrategy<String>| (spelled(name), space(), value).boxed();
    let version = member("jsonrpc", literal("2\\.0").boxed());
    let id = member(
        "id",
        select(vec!["1", "\"a\"", "-5", "null", "1.0"]).prop_map(str::to_owned).boxed(),
    );
    let method = member("method", method.prop_map(|method| format!("\"{method}\"")).boxed());
    let params = member("params", params.boxed());
    let result = member("result", object(value()).boxed());
    let error = object(select(vec!["1", "-32000", "\"x\""]).prop_map(str::to_owned));
    let error = member(
        "error",
        prop_oneof![Just("{\"code\":-7,\"message\":\"\"}".to_owned()), error].boxed(),
    );
    let extra = (
        prop_oneof![4 => literal("[x-z]{1,2}"), 1 => disguised(&["id", "method", "params", "result"])],
        space(),
        value(),
    );
    let core = prop_oneof![
        6 => (id.clone(), method.clone(), params.clone()).prop_map(|(id, method, params)| vec![id, method, params]),
        2 => (method, params).prop_map(|(method, params)| vec![method, params]),
        3 => (id.clone(), result).prop_map(|(id, result)| vec![id, result]),
        2 => (id, error).prop_map(|(id, error)| vec![id, error]),
    ];
    let extras = prop_oneof![3 => vec(extra.clone(), 0..1), 1 => vec(extra, 1..3)];
    (version, core, extras, space())
        .prop_map(|(version, core, extras, space)| ([vec![version], core, extras].concat(), space))
        .prop_flat_map(|(members, space)| (Just(members).prop_shuffle(), Just(space)))
        .prop_map(|(members, space)| join(members, &space))
}

/// Generates responses to a list request that have items in common.
pub(crate) fn listing() -> impl Strategy<Value = String> {
    let plain = (0..6u8).prop_map(|n| format!("{{\"name\":\"{n}\",\"x\":[{n}]}}"));
    let named = (spelled("name"), literal("[a-b]{0,2}"), value())
        .prop_map(|(key, name, value)| format!("{{\"x\":{value},{key}:{name}}}"));
    let item = prop_oneof![8 => plain, 2 => named, 1 => value()];
    let list = (vec(item, 0..12), space())
        .prop_map(|(items, space)| format!("[{space}{}]", items.join(&format!("{space},"))));
    let list = (spelled("tools"), space(), prop_oneof![8 => list.boxed(), 1 => value().boxed()]);
    let cursor = (spelled("nextCursor"), space(), literal("[a-b]{0,2}"));
    let extra = (literal("[x-z]{1,2}"), space(), value());
    let members = (vec(list, 0..3), vec(cursor, 0..3), vec(extra, 0..2), space());
    members
        .prop_map(|(lists, cursors, extras, space)| ([lists, cursors, extras].concat(), space))
        .prop_flat_map(|(members, space)| (Just(members).prop_shuffle(), Just(space)))
        .prop_map(|(members, space)| {
            let result = join(members, &space);
            format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{result}}}")
        })
}

/// The text with a few bytes changed, or unchanged.
pub(crate) fn damaged(text: impl Strategy<Value = String>) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![select(b"{}[]\",:\\u0dD8 9.-eE\n\0".to_vec()), any::<u8>()];
    let damage = (any::<Index>(), 0..4u8, byte);
    (text, vec(damage, 0..4)).prop_map(|(text, damages)| {
        let mut bytes = text.into_bytes();
        for (index, kind, byte) in damages {
            let at = index.index(bytes.len() + 1);
            match kind {
                0 => bytes.insert(at, byte),
                1 if at < bytes.len() => _ = bytes.remove(at),
                2 => bytes.truncate(at),
                _ => bytes.iter_mut().skip(at).take(1).for_each(|old| *old = byte),
            }
        }
        bytes
    })
}

/// Lines of all kinds with ends of all kinds.
pub(crate) fn event_stream() -> impl Strategy<Value = String> {
    let start = select(vec![
        "data", "data:", "data: ", "id:", "id: ", "retry:", "event: ", ":", "", "x", "\u{feff}",
    ]);
    let end = select(vec!["\n", "\n", "\r", "\r\n", "\n\n", "\r\r", "\r\n\r\n"]);
    let line = (start, "[0-9a: \0]{0,8}", end);
    vec(line, 0..20).prop_map(|lines| {
        lines.iter().flat_map(|(start, text, end)| [start, text.as_str(), end]).collect()
    })
}

fn join(members: Vec<(String, String, String)>, space: &str) -> String {
    let members: Vec<_> = members
        .into_iter()
        .map(|(key, space, value)| format!("{key}{space}:{value}{space}"))
        .collect();
    format!("{{{space}{}}}", members.join(&format!(",{space}")))
}

fn space() -> impl Strategy<Value = String> + Clone {
    prop_oneof![4 => Just(String::new()), 1 => "[ \t\r\n]{1,3}"]
}

fn literal(pattern: &'static str) -> impl Strategy<Value = String> + Clone {
    (pattern, any::<u32>()).prop_map(|(text, escapes)| spell(&text, escapes))
}

/// Mostly plain, sometimes with escapes.
fn spelled(name: &'static str) -> impl Strategy<Value = String> + Clone {
    prop_oneof![5 => Just(0), 1 => any::<u32>()].prop_map(move |escapes| spell(name, escapes))
}

/// A routing key, rarely something that looks like one.
fn routing_key() -> impl Strategy<Value = String> + Clone {
    let exact = (select(Key::ALL.to_vec()), prop_oneof![5 => Just(0), 1 => any::<u32>()]);
    let exact = exact.prop_map(|(key, escapes)| spell(key.name(), escapes));
    let name = Just("\"name\"".to_owned());
    prop_oneof![
        12 => exact,
        6 => name,
        6 => literal("[a-z]{1,3}"),
        1 => disguised(&["name", "uri", "arguments", "requestId", "notifications"]),
    ]
}

fn disguised(names: &'static [&'static str]) -> impl Strategy<Value = String> + Clone {
    (select(names), 0..6u8, any::<u32>()).prop_map(|(name, how, escapes)| {
        let name = match how {
            0 => name.to_uppercase(),
            1 => name.replace('s', "\u{17f}").replace('k', "\u{212a}"),
            2 => format!("{name}\0{escapes}"),
            3 => name.replace('i', "\u{131}"),
            4 => name.replacen('I', "\u{130}", 1).replace("fi", "\u{fb01}"),
            _ => format!("{name}{name}"),
        };
        spell(&name, escapes)
    })
}

/// A string literal; each bit of `escapes` decides how one character is written.
fn spell(text: &str, escapes: u32) -> String {
    let mut literal = String::from("\"");
    for (index, char) in text.chars().enumerate() {
        let escape = escapes.rotate_right(u32::try_from(index).unwrap() * 3) & 7 == 7;
        match char {
            '\n' if !escape => literal.push_str("\\n"),
            '"' | '\\' | '/' if !escape => literal.extend(['\\', char]),
            char if escape || char < ' ' => {
                let mut units = [0; 2];
                for unit in char.encode_utf16(&mut units) {
                    write!(literal, "\\u{unit:04X}").unwrap();
                }
            }
            char => literal.push(char),
        }
    }
    literal + "\""
}
