//! Limit on the nesting of policies. Cedar's parser recurses, so the text is checked before it is
//! parsed.

/// Maximum nesting of a policy: chained operators around brackets, plus [`BRACKET`] for each
/// bracket.
pub(crate) const MAX_NESTING: usize = 200;

/// Nesting of one bracket: the parser descends through all levels of its grammar for it.
const BRACKET: usize = 4;

/// Text between two brackets, as far as it has been read.
#[derive(Default)]
struct Group {
    /// Operators since the last comma or semicolon. Comparisons are left out: they cannot be
    /// chained.
    operators: usize,
    /// Current and maximum number of chained attributes.
    attributes: (usize, usize),
    /// Maximum nesting of brackets since then.
    inner: usize,
    /// Maximum nesting before that.
    deepest: usize,
}

impl Group {
    fn separate(&mut self) {
        let Self { operators, attributes: (_, attributes), inner, deepest } = *self;
        *self = Self { deepest: deepest.max(operators + attributes + inner), ..Self::default() };
    }

    fn operator(&mut self) {
        self.operators += 1;
        self.attributes.0 = 0;
    }

    fn attribute(&mut self) {
        let (row, most) = self.attributes;
        self.attributes = (row + 1, most.max(row + 1));
    }

    fn depth(mut self) -> usize {
        self.separate();
        self.deepest
    }
}

/// Returns the maximum nesting of `policies`. The text need not be valid: the parser rejects other
/// text.
pub(crate) fn nesting(policies: &str) -> usize {
    let mut open = Vec::new();
    let mut group = Group::default();
    let mut rest = policies.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        match first {
            b'"' => rest = behind_string(rest),
            b'/' if rest.first() == Some(&b'/') => {
                let end = rest.iter().position(|byte| *byte == b'\n');
                rest = &rest[end.unwrap_or(rest.len())..];
            }
            b'(' | b'[' | b'{' => open.push(std::mem::take(&mut group)),
            b')' | b']' | b'}' => {
                let outer = open.pop().unwrap_or_default();
                let inner = std::mem::replace(&mut group, outer).depth() + BRACKET;
                group.inner = group.inner.max(inner);
            }
            b',' | b';' => group.separate(),
            b'&' | b'|' if rest.first() == Some(first) => {
                rest = &rest[1..];
                group.operator();
            }
            b'!' if rest.first() == Some(&b'=') => {}
            b'+' | b'-' | b'*' | b'/' | b'%' | b'!' => group.operator(),
            b'.' => group.attribute(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
                let length = rest.iter().take_while(|byte| is_word(byte)).count();
                let (tail, behind) = rest.split_at(length);
                if *first == b'i' && tail == b"f" {
                    group.operator();
                }
                rest = behind;
            }
            _ => {}
        }
    }
    // Unclosed brackets nest as well.
    while let Some(mut outer) = open.pop() {
        outer.inner = outer.inner.max(group.depth() + BRACKET);
        group = outer;
    }
    group.depth()
}

/// Returns the text after a string, whose first quote precedes `text`.
fn behind_string(text: &[u8]) -> &[u8] {
    let mut escaped = false;
    let end = text.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    end.map_or(&[], |end| &text[end + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_nested_expressions() {
        for (text, depth) in [
            ("", 0),
            ("permit(principal, action, resource);", BRACKET),
            ("permit(principal in A::\"((((\", action, resource); // ((((", BRACKET),
            (r#"a == "\"((" && b"#, 1),
            ("a != b && !c", 2),
            ("a && b && c", 2),
            ("[a && b, c && d, [e]]", 2 * BRACKET),
            ("((", 2 * BRACKET),
            ("))", 2 * BRACKET),
            ("a || (b || (c || d)) || e", 2 + BRACKET + 1 + BRACKET + 1),
            ("if a then b else if_c", 1),
            ("a.b.c || a.d || a.e", 4),
        ] {
            assert_eq!(nesting(text), depth, "{text}");
        }
    }
}
