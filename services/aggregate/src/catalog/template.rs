//! Whether a URI is one that a template stands for (RFC 6570).

/// Whether `uri` can be an expansion of `template`.
///
/// Expressions are matched by the characters that their operator lets through: a simple one stops
/// at a reserved character, `{+x}` and `{#x}` do not, `{/x*}` takes further segments. It is a test of
/// shape, not of values: whoever has the template answers for the rest.
pub(crate) fn matches(template: &str, uri: &str) -> bool {
    let mut steps = 0;
    fits(template.as_bytes(), uri.as_bytes(), &mut steps)
}

/// Bounds the search for templates made to be slow.
const MOST_STEPS: usize = 20_000;

fn fits(template: &[u8], uri: &[u8], steps: &mut usize) -> bool {
    *steps += 1;
    if *steps > MOST_STEPS {
        return false;
    }
    let Some((first, rest)) = template.split_first() else { return uri.is_empty() };
    if *first != b'{' {
        return uri.split_first().is_some_and(|(c, tail)| c == first && fits(rest, tail, steps));
    }
    let Some(end) = rest.iter().position(|c| *c == b'}') else { return false };
    let (expression, rest) = (&rest[..end], &rest[end + 1..]);
    let lead: &[u8] = match expression.first() {
        Some(b'#') => b"#",
        Some(b'.') => b".",
        Some(b'/') => b"/",
        Some(b';') => b";",
        Some(b'?') => b"?",
        Some(b'&') => b"&",
        _ => b"",
    };
    // Undefined variables expand to nothing, the operator's character included; a path or text
    // variable that is all there is between two literals has to be something.
    let optional = !lead.is_empty() && lead != b"/";
    if optional && fits(rest, uri, steps) {
        return true;
    }
    let Some(value) = uri.strip_prefix(lead) else { return false };
    let most = value.iter().take_while(|c| passes(expression, **c)).count();
    (1..=most).rev().any(|taken| fits(rest, &value[taken..], steps))
}

/// Whether an expression's value may hold this character.
fn passes(expression: &[u8], c: u8) -> bool {
    let unreserved = c.is_ascii_alphanumeric() || b"-._~%".contains(&c) || !c.is_ascii();
    match expression.first() {
        Some(b'+' | b'#') => true,
        Some(b'/') => unreserved || (expression.ends_with(b"*") && c == b'/') || c == b',',
        Some(b'?' | b'&' | b';') => unreserved || b"=&,;+:/@!".contains(&c),
        _ => unreserved || b",!*'()@:$+=".contains(&c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_stands_for_its_expansions_only() {
        for (template, uri, fit) in [
            ("test://t/{id}/data", "test://t/123/data", true),
            ("test://t/{id}/data", "test://t/1/2/data", false),
            ("test://t/{id}/data", "test://t//data", false),
            ("file:///{+path}", "file:///a/b.txt", true),
            ("file://{/path*}", "file:///a/b.txt", true),
            ("db://q{?sql,limit}", "db://q?sql=x&limit=3", true),
            ("db://q{?sql}", "db://q", true),
            ("db://{a}-{b}", "db://x-y-z", true),
            ("db://{a}", "db://", false),
            ("db://{a", "db://x", false),
            ("plain://x", "plain://x", true),
        ] {
            assert_eq!(matches(template, uri), fit, "{template} {uri}");
        }
    }

    #[test]
    fn a_hostile_template_ends_soon() {
        let template = "{a}".repeat(30) + "!";
        assert!(!matches(&template, &"a".repeat(500)));
    }
}
