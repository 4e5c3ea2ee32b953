//! Segments of a URI that servers resolve away.

/// Number of times a URI is decoded: some servers decode twice.
const MAX_DECODINGS: usize = 3;

/// Returns `true` if a URI has a control character, or a segment `.` or `..`, plain or percent-encoded, between `/` or `\`,
/// encoded or not.
///
/// A server may resolve the segment (RFC 3986 section 5.2.4) or drop the character (WHATWG URL, basic URL parser), and then
/// reads something else than a policy judged by the text. No URI has a control character (RFC 3986 section 2).
pub(crate) fn has_dot_segments(uri: &str) -> bool {
    if uri.bytes().any(|byte| byte.is_ascii_control()) {
        return true;
    }
    // Most URIs are decided here or at the first look.
    if !uri.bytes().any(|byte| byte == b'.' || byte == b'%') {
        return false;
    }
    if has_plain(uri.as_bytes()) {
        return true;
    }
    let mut decoded = uri.as_bytes().to_vec();
    for _ in 0..MAX_DECODINGS {
        if !decode(&mut decoded) {
            return false;
        }
        if has_plain(&decoded) {
            return true;
        }
    }
    // Encoded more often than any server has reason to decode.
    decode(&mut decoded)
}

fn has_plain(uri: &[u8]) -> bool {
    // The query too: servers have paths there. `;` begins parameters of a segment, and NUL ends a C string: some servers cut
    // off what follows.
    let segments = uri.split(|byte| b"/\\?#&=:".contains(byte));
    let begins = |segment: &[u8]| {
        // Some servers pass over white space, and over control characters.
        let read = segment.iter().take_while(|byte| !matches!(byte, b';' | 0));
        let mut read = read.filter(|byte| !byte.is_ascii_control() && **byte != b' ');
        let (first, second, third) = (read.next(), read.next(), read.next());
        first == Some(&b'.') && third.is_none() && second.is_none_or(|byte| *byte == b'.')
    };
    segments.into_iter().any(begins)
}

/// Decodes `text` once. Returns `true` if anything was encoded.
fn decode(text: &mut Vec<u8>) -> bool {
    let decoded: Vec<u8> = percent_encoding::percent_decode(text).collect();
    let was_encoded = decoded.len() < text.len();
    *text = decoded;
    was_encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_dot_segments_in_any_spelling() {
        for uri in [
            "file:///public/../secret",
            "file:///public/./x",
            "file:///public/..",
            "file:..",
            "../x",
            "file:///public/%2e%2e/secret",
            "file:///public/.%2E/secret",
            "file:///public/%2e/x",
            "file:///public%2f..%2fsecret",
            "file:///public/..%5csecret",
            "file:///public\\..\\secret",
            "file:///public/%252e%252e/secret",
            "file:///public/%25252e./secret",
            "file:///public/..;x=1/secret",
            "file:///public/..%3b/secret",
            "file:///public/%20../secret",
            "db://x?path=public/../secret",
            "db://x?path=..",
            "x://a/%2525252e%2525252e/b",
            "file:///public/.\t./secret",
            "file:///pub\nlic/secret",
            "file:///sec\u{7f}ret",
            "file:///public/..%00/secret",
            "file:///public/.%0a./secret",
            "file:///public/..%00.txt",
        ] {
            assert!(has_dot_segments(uri), "{uri}");
        }
        for uri in [
            "file:///public/a.txt",
            "file:///public/.hidden",
            "file:///public/...",
            "file:///public/a..b",
            "file:///public/%2ehidden",
            "https://example.com/v1.2/x?y=1.5",
            "note://100%",
            "note://a%20b%zz",
            "ui://a/b",
            "",
        ] {
            assert!(!has_dot_segments(uri), "{uri}");
        }
    }
}
