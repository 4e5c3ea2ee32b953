//! Syntax of scopes.

/// Returns `true` for a valid scope (RFC 6749 section 3.3): visible ASCII without quotes and backslashes.
#[must_use]
pub fn is_scope(scope: &str) -> bool {
    let legal = |byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    !scope.is_empty() && scope.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_invalid_scope_characters() {
        for bad in ["", "a b", "a\"", "a\\", "a\r\nb", "\u{e9}"] {
            assert!(!is_scope(bad), "{bad:?}");
        }
        assert!(is_scope("https://mcp.example/read:all"));
    }
}
