//! Completeness of JSON in a body that ends with its connection.

/// Incremental check that a JSON text is complete.
///
/// A body without a length ends with its connection (RFC 9112, section 6.3), and so does that of a
/// crashed server. Only an object or array shows the difference; any other value, and text after
/// it, is ignored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JsonCompleteness {
    state: State,
    depth: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Only white space so far.
    #[default]
    Start,
    /// Between the tokens of an object or array.
    Structure,
    String,
    /// After a backslash in a string.
    Escape,
    /// The value is complete, or its end cannot be detected.
    Complete,
}

impl JsonCompleteness {
    /// Processes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.state = match (self.state, byte) {
                (State::Complete, _) => return,
                (State::Start, b' ' | b'\t' | b'\r' | b'\n') => State::Start,
                (State::Start | State::Structure, b'{' | b'[') => {
                    self.depth += 1;
                    State::Structure
                }
                (State::Start, _) => State::Complete,
                (State::Structure, b'}' | b']') => {
                    self.depth -= 1;
                    if self.depth == 0 { State::Complete } else { State::Structure }
                }
                (State::Structure, b'"') | (State::Escape, _) => State::String,
                (State::String, b'\\') => State::Escape,
                (State::String, b'"') | (State::Structure, _) => State::Structure,
                (State::String, _) => State::String,
            };
        }
    }

    /// Returns whether an object or array is incomplete.
    pub(crate) fn is_incomplete(self) -> bool {
        !matches!(self.state, State::Start | State::Complete)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_incomplete(parts: &[&[u8]]) -> bool {
        let mut end = JsonCompleteness::default();
        for part in parts {
            end.push(part);
        }
        end.is_incomplete()
    }

    #[test]
    fn follows_strings_and_escapes() {
        for whole in ["", "  ", "7", "\"a", "{}", "[]x", r#"{"a":"}"}"#, r#"["\\","\"]"]"#] {
            assert!(!is_incomplete(&[whole.as_bytes()]), "{whole}");
        }
        for cut in ["{", " [", r#"{"a":"}"#, r#"["\""#, r#"["\"]"#, r#"["a\\\"]"#, "[[]"] {
            assert!(is_incomplete(&[cut.as_bytes()]), "{cut}");
        }
    }

    fn json() -> impl Strategy<Value = String> {
        let text = r#"([a-z{}\[\]]|\\"|\\\\){0,6}"#.prop_map(|text| format!("\"{text}\""));
        let leaf = prop_oneof![text.clone(), "[0-9]{1,3}", Just("null".to_owned())];
        let value = leaf.prop_recursive(4, 32, 4, move |inner| {
            let members = prop::collection::vec((text.clone(), inner.clone()), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(|all| format!("[{}]", all.join(","))),
                members.prop_map(|all| {
                    let all: Vec<_> = all.iter().map(|(key, it)| format!("{key}: {it}")).collect();
                    format!("{{{}}}", all.join(","))
                }),
            ]
        });
        value.prop_map(|value| format!("{{\"a\":{value}}}"))
    }

    proptest! {
        #[test]
        fn every_prefix_is_incomplete(text in json(), at in 0usize..10_000) {
            let (first, second) = text.as_bytes().split_at(at % text.len());
            prop_assert!(!is_incomplete(&[first, second]));
            prop_assert_eq!(is_incomplete(&[first]), !first.is_empty());
        }

        #[test]
        fn accepts_any_bytes(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..5)) {
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(is_incomplete(&parts), is_incomplete(&[&parts.concat()]));
        }
    }
}
