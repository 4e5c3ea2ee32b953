//! Lists read in one pass, against the message scanned first and looked into afterwards.

use vmcp_wire::{
    Envelope, ItemRules, ListResult, Outcome, elements, find, members, parse_json_string, scan,
};

/// Separator of the earlier response and the one that is read with it, which occurs in no text.
pub(crate) const BETWEEN: u8 = 0xFF;

/// Holds for any bytes.
pub(crate) fn check(bytes: &[u8]) {
    let (before, after) = match bytes.iter().position(|byte| *byte == BETWEEN) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, bytes),
    };
    let before = read(before, None).ok().map(|(_, listing)| listing);
    let alone = read(after, None);
    let helped = read(after, before.as_ref());
    assert_eq!(alone.as_ref().map(|read| read.0), scan(after).as_ref().map(|read| *read));
    assert_eq!(alone.as_ref().map(seen), helped.as_ref().map(seen));
    if let Ok((envelope, listing)) = &helped {
        let seen = seen_after(after, *envelope);
        assert_eq!((items(listing), listing.next_cursor().map(Into::into)), seen);
    }
}

type Items = Vec<(usize, Vec<u8>, String)>;

fn read(
    bytes: &[u8],
    before: Option<&ListResult>,
) -> Result<(Envelope, ListResult), vmcp_wire::ScanError> {
    const RULES: &ItemRules = &ItemRules { key: "name", members: &[] };
    ListResult::read(&bytes.to_vec().into(), "tools", RULES, before)
}

fn seen((envelope, listing): &(Envelope, ListResult)) -> (Envelope, Items) {
    (*envelope, items(listing))
}

fn items(listing: &ListResult) -> Items {
    let text = listing.text();
    let entries = listing.entries().iter();
    entries
        .map(|entry| {
            let item = entry.item.of(text).to_vec();
            (entry.item.start as usize, item, entry.key.read(text).into_owned())
        })
        .collect()
}

/// The same by what looks into JSON that was scanned.
fn seen_after(bytes: &[u8], envelope: Envelope) -> (Items, Option<String>) {
    let Envelope::Response { outcome: Outcome::Result(result), .. } = envelope else {
        return (Vec::new(), None);
    };
    let result = result.of(bytes);
    let items = elements(find(result, "tools").unwrap_or_default())
        .filter_map(|item| {
            let mut keys = members(item).filter(|member| member.key.is("name"));
            let key = keys.next().filter(|_| keys.next().is_none())?;
            let key = parse_json_string(key.value).filter(|key| !key.is_empty())?.into_owned();
            Some((item.as_ptr() as usize - bytes.as_ptr() as usize, item.to_vec(), key))
        })
        .collect();
    let next = find(result, "nextCursor").and_then(parse_json_string);
    (items, next.map(std::borrow::Cow::into_owned))
}
