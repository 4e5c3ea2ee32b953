//! Suggestions for misspelled names.

/// Returns the name in `known` that is nearest to `word`, if it is near enough for a suggestion.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Names are short, and the distance takes quadratic time, so long words get no suggestion.
    if word.len() > 64 {
        return None;
    }
    let folded = word.to_lowercase();
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], "");
    known
        .into_iter()
        .filter_map(|name| {
            if plain(name) == plain(&folded) {
                return Some((0, name));
            }
            let allowed = (name.chars().count() / 3).clamp(1, 3);
            let distance = distance(&folded, &name.to_lowercase());
            (distance <= allowed).then_some((distance, name))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Counts insertions, deletions, replacements and swaps of adjacent characters (optimal string alignment).
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut previous: Vec<usize> = (0..=right.len()).collect();
    let mut last = None;
    for (row, from) in left.chars().enumerate() {
        let mut current = Vec::with_capacity(right.len() + 1);
        current.push(row + 1);
        for (column, to) in right.iter().enumerate() {
            let replace = previous[column] + usize::from(from != *to);
            let mut best = replace.min(previous[column + 1] + 1).min(current[column] + 1);
            let swapped = column > 0 && last == Some(*to) && right[column - 1] == from;
            if swapped && let Some(cost) = before.get(column - 1) {
                best = best.min(cost + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut previous, current);
        last = Some(from);
    }
    previous.last().copied().expect("a row has a column for the empty prefix")
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn suggests_name_that_differs_by_one_edit() {
        let known = ["transport", "type", "url"];
        assert_eq!(nearest("trasnport", known), Some("transport"));
        assert_eq!(nearest("Transport", known), Some("transport"));
        assert_eq!(nearest("ulr", known), Some("url"));
    }

    #[test]
    fn suggests_camel_case_for_snake_case() {
        assert_eq!(nearest("ca_bundle_path", ["caBundlePath"]), Some("caBundlePath"));
    }

    #[test]
    fn makes_no_suggestion_for_unrelated_word() {
        assert_eq!(nearest("zebra", ["transport", "type", "url"]), None);
        assert_eq!(nearest(&"a".repeat(100), ["transport"]), None);
    }
}
