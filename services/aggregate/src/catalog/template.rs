//! Matching of URIs against templates (RFC 6570).

/// Returns the number of expressions in a template.
pub(super) fn expressions(template: &str) -> usize {
    memchr::memchr_iter(b'{', template.as_bytes()).count()
}

/// Returns the number of literal bytes in a template.
pub(super) fn literals(template: &str) -> usize {
    let mut rest = template;
    let mut count = 0;
    while let Some((text, behind)) = rest.split_once('{') {
        count += text.len();
        rest = behind.split_once('}').map_or("", |(_, behind)| behind);
    }
    count + rest.len()
}

/// Returns `true` if `uri` can be an expansion of `template`.
///
/// Expressions are matched by the characters that their operator permits: a simple expression ends at a reserved character,
/// `{+x}` and `{#x}` do not, `{/x*}` accepts further segments. The match checks the shape, not the values; the backend
/// validates those.
///
/// The set of URI positions at which the template so far can end is tracked, so the work is at most the product of both
/// lengths, without recursion or backtracking. The work is deducted from `steps`. If `steps` is exhausted, the result is
/// `false`.
pub(crate) fn matches(template: &str, uri: &str, steps: &mut usize) -> bool {
    let (template, uri) = (template.as_bytes(), uri.as_bytes());
    let Some(first) = memchr::memchr(b'{', template) else { return template == uri };
    // The literal prefix rules out most templates.
    if !spend(steps, 1 + first / 16) || !uri.starts_with(&template[..first]) {
        return false;
    }
    expand(&template[first..], &uri[first..], steps).unwrap_or(false)
}

/// Matches a template that begins with an expression. Returns `None` if `steps` is exhausted or an expression is not closed.
fn expand(mut template: &[u8], uri: &[u8], steps: &mut usize) -> Option<bool> {
    let work = uri.len() + 1;
    spend(steps, work).then_some(())?;
    // `ends[i]` is `true` if the template so far can end before byte `i`.
    let mut ends = vec![false; work];
    ends[0] = true;
    let mut next = vec![false; work];
    while let Some((brace, rest)) = template.split_first() {
        if *brace == b'{' {
            let (inside, behind) = rest.split_at(memchr::memchr(b'}', rest)?);
            spend(steps, work).then_some(())?;
            expression(inside, uri, &ends, &mut next);
            template = &behind[1..];
        } else {
            let length = memchr::memchr(b'{', template).unwrap_or(template.len());
            let (text, behind) = template.split_at(length);
            spend(steps, work.saturating_mul(1 + length / 16)).then_some(())?;
            literal(text, uri, &ends, &mut next);
            template = behind;
        }
        std::mem::swap(&mut ends, &mut next);
        next.fill(false);
    }
    ends.last().copied()
}

fn spend(steps: &mut usize, work: usize) -> bool {
    let is_enough = *steps >= work;
    *steps = steps.saturating_sub(work);
    is_enough
}

/// Marks in `next` the ends of a literal that begins at one of `starts`.
fn literal(text: &[u8], uri: &[u8], starts: &[bool], next: &mut [bool]) {
    for (at, _) in starts.iter().enumerate().filter(|(_, start)| **start) {
        if uri[at..].starts_with(text) {
            next[at + text.len()] = true;
        }
    }
}

/// Marks in `next` the possible ends of an expression that begins at one of `starts`.
fn expression(expression: &[u8], uri: &[u8], starts: &[bool], next: &mut [bool]) {
    let lead: &[u8] = match expression.first() {
        Some(b'#') => b"#",
        Some(b'.') => b".",
        Some(b'/') => b"/",
        Some(b';') => b";",
        Some(b'?') => b"?",
        Some(b'&') => b"&",
        _ => b"",
    };
    // Undefined variables expand to nothing, including the operator's character. A path or text variable that fills the gap
    // between two literals must not be empty.
    let optional = !lead.is_empty() && lead != b"/";
    // End of the previous run of permitted characters. Values that begin within that run end at positions that are already
    // marked.
    let mut run = 0;
    for (at, _) in starts.iter().enumerate().filter(|(_, start)| **start) {
        if optional {
            next[at] = true;
        }
        if !uri[at..].starts_with(lead) {
            continue;
        }
        let value = at + lead.len();
        if value >= run {
            run = value + uri[value..].iter().take_while(|c| passes(expression, **c)).count();
            next[value..=run].iter_mut().skip(1).for_each(|end| *end = true);
        }
    }
}

/// Returns `true` if an expression's value may contain this character.
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

    const MAX_STEPS: usize = 1 << 20;

    fn fits(template: &str, uri: &str) -> bool {
        matches(template, uri, &mut MAX_STEPS.clone())
    }

    #[test]
    fn template_matches_only_own_expansions() {
        for (template, uri, fit) in [
            ("test://t/{id}/data", "test://t/123/data", true),
            ("test://t/{id}/data", "test://t/1/2/data", false),
            ("test://t/{id}/data", "test://t//data", false),
            ("test://t/{id}/data", "test://t/1/data/", false),
            ("file:///{+path}", "file:///a/b.txt", true),
            ("file://{/path*}", "file:///a/b.txt", true),
            ("db://q{?sql,limit}", "db://q?sql=x&limit=3", true),
            ("db://q{?sql}", "db://q", true),
            ("db://{a}-{b}", "db://x-y-z", true),
            ("db://{a}-{b}", "db://-y", false),
            ("db://{a}", "db://", false),
            ("db://{a", "db://x", false),
            ("db://{+a}/x{?q}", "db://1/x/x", true),
            ("db://{+a}/x{?q}{#f}", "db://1/x?q=2#/x", true),
            ("{+all}", "x", true),
            ("{a}{a}{a}", "xy", false),
            ("{a}{a}{a}", "xyz", true),
            ("plain://x", "plain://x", true),
            ("plain://x", "plain://xy", false),
            ("", "", true),
        ] {
            assert_eq!(fits(template, uri), fit, "{template} {uri}");
        }
    }

    #[test]
    fn limits_steps_of_hostile_templates() {
        assert!(!fits(&("{a}".repeat(30) + "!"), &"a".repeat(500)));
        assert!(!fits(&("{+a}a".repeat(1000) + "!"), &"a".repeat(5000)));
        assert!(!fits(&"{".repeat(100_000), &"a".repeat(5000)));
        let mut steps = MAX_STEPS;
        assert!(!matches(&"{?a}".repeat(19_900), &"a".repeat(1 << 22), &mut steps));
        assert_eq!(steps, 0, "what is left is not tried");
    }

    #[test]
    fn matches_thousands_of_expressions_without_recursion() {
        assert!(fits(&"{?a}".repeat(19_900), ""));
        assert!(!fits(&"{?a}".repeat(19_900), "b://x"));
        assert!(fits(&("x".repeat(1 << 20) + "{a}"), &"x".repeat((1 << 20) + 1)));
    }
}
