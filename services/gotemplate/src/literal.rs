//! Values of Go's literals: texts, characters and numbers.

mod float;
mod integer;

use self::{float::parse_float, integer::parse_integer};

/// Value of a number in a template.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    Integer(i64),
    Float(f64),
    /// Integer above the range of `int`: an error if it is evaluated.
    Overflow,
}

/// Returns the value of a text in double quotes or backquotes, or the reason why it has none.
pub(crate) fn unquote(quoted: &str) -> Result<String, String> {
    if let Some(raw) = quoted.strip_prefix('`') {
        return Ok(raw.trim_end_matches('`').replace('\r', ""));
    }
    let mut rest = &quoted[1..quoted.len() - 1];
    let mut bytes = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        let (unit, tail) = unescape(rest, '"')?;
        match unit {
            Unit::Byte(byte) => bytes.push(byte),
            Unit::Character(character) => {
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        rest = tail;
    }
    String::from_utf8(bytes).map_err(|_| "the escapes are not valid UTF-8".to_owned())
}

/// Returns the value of a character constant with its quotes.
pub(crate) fn character(quoted: &str) -> Result<i64, String> {
    let (unit, tail) = unescape(&quoted[1..], '\'')?;
    if tail != "'" {
        return Err(format!("{quoted} is not one character; write text in double quotes"));
    }
    Ok(match unit {
        Unit::Byte(byte) => i64::from(byte),
        Unit::Character(character) => i64::from(u32::from(character)),
    })
}

/// Returns the value of a number.
pub(crate) fn number(text: &str) -> Result<Number, String> {
    let has_base = text.starts_with("0x") || text.starts_with("0X");
    let is_hexadecimal_integer = has_base && !text.contains(['p', 'P']);
    let is_float = !is_hexadecimal_integer && text.contains(['.', 'e', 'E', 'p', 'P']);
    match parse_integer(text) {
        // A quirk of Go: the `e` of `-0x1e` makes a floating-point number of it.
        #[expect(clippy::cast_precision_loss, reason = "Go converts with the same loss")]
        Some(Number::Integer(value)) if is_float => Ok(Number::Float(value as f64)),
        Some(value) => Ok(value),
        None => {
            let float = parse_float(text).ok_or_else(|| format!("{text:?} is not a number"))?;
            if is_float {
                Ok(Number::Float(float))
            } else {
                Err(format!(
                    "{text} is not an integer of 64 bits; write {text}.0 for a floating-point number"
                ))
            }
        }
    }
}

/// Byte or character that an escape stands for.
enum Unit {
    Byte(u8),
    Character(char),
}

/// Returns the first character of a text, or the value of its first escape, and the rest of the text.
fn unescape(text: &str, quote: char) -> Result<(Unit, &str), String> {
    let mut characters = text.chars();
    let first = characters.next();
    match first {
        Some('\\') => {}
        Some(found) if found != quote => return Ok((Unit::Character(found), characters.as_str())),
        _ => return Err("the quotes are empty; write a character between them".to_owned()),
    }
    let kind = characters.next().unwrap_or_default();
    let rest = characters.as_str();
    let simple = match kind {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        '\\' => '\\',
        _ if kind == quote => quote,
        'x' => return code(rest, 2, 16).map(|(code, rest)| (byte_unit(code), rest)),
        'u' => return code_point(rest, 4),
        'U' => return code_point(rest, 8),
        '0'..='7' => {
            let (code, rest) = code(&text[1..], 3, 8)?;
            if code > u32::from(u8::MAX) {
                return Err(format!("the escape \\{code:o} exceeds \\377"));
            }
            return Ok((byte_unit(code), rest));
        }
        _ => return Err(format!("the escape \\{kind} does not exist; write \\\\ for a backslash")),
    };
    Ok((Unit::Character(simple), rest))
}

#[expect(clippy::cast_possible_truncation, reason = "callers pass codes up to 255")]
fn byte_unit(code: u32) -> Unit {
    Unit::Byte(code as u8)
}

fn code_point(text: &str, digits: usize) -> Result<(Unit, &str), String> {
    let (code, rest) = code(text, digits, 16)?;
    let character = char::from_u32(code);
    let character = character.ok_or_else(|| format!("U+{code:04X} is not a character"))?;
    Ok((Unit::Character(character), rest))
}

/// Returns the number that the first digits of a text form, and the rest.
fn code(text: &str, digits: usize, base: u32) -> Result<(u32, &str), String> {
    let error = || format!("the escape needs {digits} digits of base {base}");
    let (number, rest) = text.split_at_checked(digits).ok_or_else(error)?;
    if !number.chars().all(|digit| digit.is_digit(base)) {
        return Err(error());
    }
    u32::from_str_radix(number, base).map(|code| (code, rest)).map_err(|_| error())
}
