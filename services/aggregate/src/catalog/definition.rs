//! Renames and overrides of definitions. Everything else keeps the backend's bytes.

use vmcp_wire::{Span, Splice, find, members, write_json_string};

use super::{Item, apps};
use crate::settings::Override;

/// Appends an item as advertised under `name`. For a tool, `uri` replaces the URI of its user interface if clients know another
/// one.
pub(crate) fn define(
    item: Item<'_>,
    name: &str,
    change: Option<&Override>,
    interface: Option<&str>,
    out: &mut Vec<u8>,
) {
    let (raw, at) = (item.raw(), item.at());
    if change.is_none() && interface.is_none() {
        out.extend_from_slice(&raw[..at.start as usize]);
        if item.is(name) {
            out.extend_from_slice(at.of(raw));
        } else {
            write_json_string(name, out);
        }
        out.extend_from_slice(&raw[at.end as usize..]);
        return;
    }
    let whole = Span::whole(raw);
    let mut splice = Splice::new(raw);
    splice.replace(at, literal(name));
    if let Some(description) = change.and_then(|change| change.description.as_ref()) {
        splice.set_member(whole, "description", &literal(description));
    }
    if let Some(change) = change.filter(|change| !change.annotations.is_empty()) {
        splice.set_member(whole, "annotations", &annotations(raw, change));
    }
    if let Some(uri) = interface {
        apps::set_resource(&mut splice, raw, whole, &literal(uri));
    }
    out.extend_from_slice(&splice.finish());
}

/// Merges the override's annotations into those of the tool.
fn annotations(raw: &[u8], change: &Override) -> Vec<u8> {
    let old = find(raw, "annotations").into_iter().flat_map(members);
    let mut out = vec![b'{'];
    let kept = old.filter(|member| !change.annotations.iter().any(|(name, _)| member.key.is(name)));
    for member in kept {
        append(&mut out, member.key.raw(), member.value);
    }
    for (name, value) in &change.annotations {
        append(&mut out, &literal(name), value.to_string().as_bytes());
    }
    out.push(b'}');
    out
}

fn append(out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    if out.len() > 1 {
        out.push(b',');
    }
    out.extend_from_slice(key);
    out.push(b':');
    out.extend_from_slice(value);
}

/// Encodes a string as a JSON literal.
pub(crate) fn literal(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_json_string(text, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Items, Kind};

    #[test]
    fn keeps_members_without_override() {
        let raw = r#"{"x-vendor":1.10,"name":"a","annotations":{"title":"T","readOnlyHint":true},"icons":[]}"#;
        let change = Override {
            description: Some("new \"words\"".to_owned()),
            annotations: vec![("readOnlyHint", false.into()), ("openWorldHint", true.into())],
            ..Override::default()
        };
        assert_eq!(
            defined(raw, "be_a", Some(&change)),
            r#"{"x-vendor":1.10,"name":"be_a","annotations":{"title":"T","readOnlyHint":false,"openWorldHint":true},"icons":[],"description":"new \"words\""}"#
        );
        assert_eq!(defined(raw, "be_a", None), raw.replace("\"a\"", "\"be_a\""));
        assert_eq!(defined(raw, "a", None), raw);
    }

    #[test]
    fn unchanged_name_keeps_spelling() {
        let raw = r#"{"name":"\u0061\""}"#;
        assert_eq!(defined(raw, "a\"", None), raw);
        assert_eq!(defined(raw, "b\"", None), r#"{"name":"b\""}"#);
    }

    fn defined(raw: &str, name: &str, change: Option<&Override>) -> String {
        let items = Items::of(Kind::Tools, &[raw]);
        let mut out = Vec::new();
        define(items.iter().next().unwrap(), name, change, None, &mut out);
        String::from_utf8(out).unwrap()
    }
}
