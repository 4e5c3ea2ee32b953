//! Suggestions for misspelled names.

/// Returns the name in `known` that is nearest to `word`, if it is near enough for a suggestion.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
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
            let distance = strsim::osa_distance(&folded, &name.to_lowercase());
            (distance <= allowed).then_some((distance, name))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
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
