//! Display names of clients.

/// Maximum length of a client's name, in characters.
const MAX_NAME: usize = 256;

/// Returns `true` if a name is safe to display: not too long, and without characters that change the rendering of the text
/// around it.
pub(crate) fn is_displayable(name: &str) -> bool {
    let misleading = |character: char| {
        character.is_control()
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{61c}' | '\u{feff}')
    };
    !name.trim().is_empty() && name.chars().count() <= MAX_NAME && !name.chars().any(misleading)
}
