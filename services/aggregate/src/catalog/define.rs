//! A definition under another name, or with parts of it overridden. What is not overridden stays byte
//! for byte as the backend wrote it.

use bytes::Bytes;
use vmcp_wire::{Span, Splice, find, members, quote};

use super::Item;
use crate::settings::Override;

/// An item as it is advertised under `name`.
pub(crate) fn define(item: &Item, name: &str, change: Option<&Override>) -> Bytes {
    let raw = &item.raw;
    if change.is_none() && *item.key == *name {
        return raw.clone();
    }
    let whole = Span { start: 0, end: u32::try_from(raw.len()).unwrap_or(u32::MAX) };
    let mut splice = Splice::new(raw);
    splice.replace(item.at, literal(name));
    if let Some(change) = change {
        if let Some(description) = &change.description {
            splice.set_member(whole, "description", &literal(description));
        }
        if !change.annotations.is_empty() {
            splice.set_member(whole, "annotations", &annotations(raw, change));
        }
    }
    splice.finish()
}

/// The tool's annotations with those of the override set.
fn annotations(raw: &Bytes, change: &Override) -> Vec<u8> {
    let old = find(raw, "annotations").unwrap_or_default();
    let mut out = vec![b'{'];
    let kept = members(old)
        .filter(|member| !change.annotations.iter().any(|(name, _)| member.key.is(name)));
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

/// A JSON string literal.
pub(crate) fn literal(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 2);
    quote(text, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Kind;

    #[test]
    fn everything_that_is_not_overridden_survives() {
        let raw = Bytes::from_static(
            br#"{"x-vendor":1.10,"name":"a","annotations":{"title":"T","readOnlyHint":true},"icons":[]}"#,
        );
        let change = Override {
            description: Some("new \"words\"".to_owned()),
            annotations: vec![("readOnlyHint", false.into()), ("openWorldHint", true.into())],
            ..Override::default()
        };
        let item = Item::read(Kind::Tools, raw.clone()).unwrap();
        assert_eq!(
            define(&item, "be_a", Some(&change)),
            r#"{"x-vendor":1.10,"name":"be_a","annotations":{"title":"T","readOnlyHint":false,"openWorldHint":true},"icons":[],"description":"new \"words\""}"#
        );
        assert_eq!(define(&item, "a", None), raw);
    }
}
