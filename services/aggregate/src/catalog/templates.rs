//! Lookup of the backend whose resource template matches a URI.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::template::{expressions, literals, matches};

/// Maximum work of one lookup, in steps of one to two nanoseconds, and the share of one backend's templates. The share prevents
/// one backend from exhausting the budget of the others.
const MAX_STEPS: usize = 100_000;
const MAX_STEPS_OF_BACKEND: usize = MAX_STEPS / 4;

/// Maximum number of templates per backend and of expressions per template.
const MAX_TEMPLATES: usize = 1000;
const MAX_EXPRESSIONS: usize = 64;

/// Templates of all backends. `L` is the handle of a backend.
#[derive(Debug)]
pub(crate) struct Templates<L> {
    /// Backend by the template's text.
    exact: HashMap<Box<str>, L>,
    /// Templates by the literal before the first expression, most specific first.
    by_head: HashMap<Box<str>, Vec<Template<L>>>,
    /// Lengths of these literals, longest first.
    lengths: Vec<usize>,
}

#[derive(Debug)]
struct Template<L> {
    text: Box<str>,
    /// Index of the backend.
    part: usize,
    backend: L,
}

/// End condition of a search among templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    /// Stops at the first match.
    First,
    /// Examines all templates, even after a match.
    All,
}

impl<L: Clone> Templates<L> {
    /// Collects the templates of each backend, in configuration order.
    pub(super) fn new<'a>(all: impl Iterator<Item = (L, Vec<&'a str>)>) -> Self {
        let (mut exact, mut by_head) = (HashMap::new(), HashMap::<Box<str>, Vec<_>>::new());
        for (part, (backend, templates)) in all.enumerate() {
            for text in templates {
                exact.entry(text.into()).or_insert_with(|| backend.clone());
                if let Some((head, _)) = text.split_once('{') {
                    let template = Template { text: text.into(), part, backend: backend.clone() };
                    by_head.entry(head.into()).or_default().push(template);
                }
            }
        }
        for templates in by_head.values_mut() {
            // Stable sort: equally specific templates stay in configuration order.
            templates.sort_by_key(|template| Reverse(literals(&template.text)));
        }
        let lengths: HashSet<usize> = by_head.keys().map(|head| head.len()).collect();
        let mut lengths: Vec<_> = lengths.into_iter().collect();
        lengths.sort_by_key(|length| Reverse(*length));
        Self { exact, by_head, lengths }
    }

    /// Returns the backend with the most specific template that matches `uri`: the one with the longest literal before its
    /// first expression, then the one with the most literal bytes.
    pub(crate) fn find(&self, uri: &str) -> Option<&L> {
        self.exact.get(uri).or_else(|| self.search(uri, Search::First))
    }

    /// Equivalent to [`find`](Self::find), but continues the search after a match, so the time reveals little about the
    /// templates.
    pub(crate) fn find_evenly(&self, uri: &str) -> Option<&L> {
        let found = self.search(uri, Search::All);
        self.exact.get(uri).or(found)
    }

    fn search(&self, uri: &str, search: Search) -> Option<&L> {
        let (mut left, mut found) = (MAX_STEPS, None);
        let mut spent: HashMap<usize, usize> = HashMap::new();
        for length in &self.lengths {
            let Some(head) = uri.get(..*length) else { continue };
            let Some(rest) = left.checked_sub(1 + length / 16) else { break };
            left = rest;
            for template in self.by_head.get(head).into_iter().flatten() {
                let spent = spent.entry(template.part).or_default();
                let share = left.min(MAX_STEPS_OF_BACKEND.saturating_sub(*spent));
                let mut steps = share;
                if matches(&template.text, uri, &mut steps) {
                    found = found.or(Some(&template.backend));
                    if search == Search::First {
                        return found;
                    }
                }
                let taken = share - steps;
                *spent += taken;
                left -= taken;
            }
        }
        found
    }

    /// Returns the backend of a template, compared verbatim.
    pub(super) fn owner(&self, template: &str) -> Option<&L> {
        self.exact.get(template)
    }

    /// Iterates over the templates with their backends.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &L)> {
        self.exact.iter().map(|(text, backend)| (&**text, backend))
    }

    /// Returns `true` if the text equals a listed template.
    pub(crate) fn is_template(&self, text: &str) -> bool {
        self.exact.contains_key(text)
    }
}

/// Returns the reason to leave out a backend's template with `count` templates before it, if there is one.
pub(super) fn unfit(template: &str, count: usize) -> Option<String> {
    if count >= MAX_TEMPLATES {
        return Some(format!("left out: its backend has more than {MAX_TEMPLATES} templates"));
    }
    (expressions(template) > MAX_EXPRESSIONS)
        .then(|| format!("left out: it has more than {MAX_EXPRESSIONS} expressions"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(all: &[(&'a str, &[&'a str])], uri: &str) -> Option<&'a str> {
        let templates = all.iter().map(|(backend, texts)| (*backend, texts.to_vec()));
        let templates = Templates::new(templates);
        let found = templates.find(uri).copied();
        assert_eq!(templates.find_evenly(uri).copied(), found, "{uri}");
        found
    }

    #[test]
    fn routes_to_most_specific_template() {
        let all: &[(&str, &[&str])] = &[
            ("all", &["{+everything}"]),
            ("files", &["file:///{+path}"]),
            ("logs", &["file:///logs/{name}", "file:///{a}/{b}/raw"]),
            ("same", &["file:///{+other}"]),
        ];
        for (uri, backend) in [
            ("file:///logs/x", "logs"),
            ("file:///x/y/raw", "logs"),
            ("file:///x", "files"),
            ("db://x", "all"),
            ("file:///logs/{name}", "logs"),
        ] {
            assert_eq!(found(all, uri), Some(backend), "{uri}");
        }
        assert_eq!(found(&all[1..], "db://x"), None);
        assert_eq!(found(&all[1..], "fil\u{e9}"), None);
    }

    #[test]
    fn hostile_templates_do_not_hide_other_templates() {
        let many: Vec<String> =
            (0..MAX_TEMPLATES).map(|n| format!("x://{}!{n}", "{+a}a".repeat(60))).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let uri = format!("x://{}", "a".repeat(400));
        let all: &[(&str, &[&str])] = &[("bad", &many), ("good", &["x://{id}"])];
        assert_eq!(found(all, &uri), Some("good"));
        let long = format!("x://{}", "a".repeat(1 << 22));
        assert_eq!(found(all, &long), None);
    }

    #[test]
    fn templates_are_limited() {
        assert_eq!(unfit(&"{a}".repeat(64), 999), None);
        assert!(unfit(&"{a}".repeat(65), 0).is_some());
        assert!(unfit("{a}", 1000).is_some());
    }
}
