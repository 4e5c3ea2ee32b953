//! Detection of guessable secrets.

use std::collections::HashMap;

use secrecy::{ExposeSecret, SecretSlice};

/// Minimum entropy of a secret's byte frequencies, in bits. Random hexadecimal text has more from 32 digits on.
const MIN_ENTROPY: f64 = 90.0;

/// Words that are common in placeholders.
const WORDS: [&str; 8] =
    ["password", "passwort", "secret", "changeme", "change-me", "change_me", "example", "qwerty"];

/// Returns `true` if a secret does not look random. The check finds mistakes; a secret that passes it may still be
/// guessable.
pub(super) fn is_weak(secret: &SecretSlice<u8>) -> bool {
    let secret = secret.expose_secret().trim_ascii();
    has_period(secret) || is_sequence(secret) || has_word(secret) || entropy(secret) < MIN_ENTROPY
}

/// Returns `true` if the secret repeats one part.
fn has_period(secret: &[u8]) -> bool {
    let mut periods = 1..=secret.len() / 2;
    periods.any(|period| secret.iter().skip(period).zip(secret).all(|(one, other)| one == other))
}

/// Returns `true` if most bytes count up or down.
fn is_sequence(secret: &[u8]) -> bool {
    let steps = |step: u8| {
        let pairs = secret.iter().skip(1).zip(secret);
        let of = pairs.filter(|(next, byte)| next.wrapping_sub(**byte) == step).count();
        of * 4 > secret.len() * 3
    };
    steps(1) || steps(u8::MAX)
}

fn has_word(secret: &[u8]) -> bool {
    let text = secret.to_ascii_lowercase();
    WORDS.iter().any(|word| text.windows(word.len()).any(|part| part == word.as_bytes()))
}

/// Returns the entropy of the byte frequencies, in bits.
fn entropy(secret: &[u8]) -> f64 {
    let mut counts: HashMap<u8, u32> = HashMap::new();
    for byte in secret {
        *counts.entry(*byte).or_default() += 1;
    }
    let length = f64::from(u32::try_from(secret.len()).unwrap_or(u32::MAX));
    counts.values().map(|count| f64::from(*count) * (length / f64::from(*count)).log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_placeholders_from_random_secrets() {
        for weak in [
            "00000000000000000000000000000000",
            "abababababababababababababababab",
            "0123456789abcdef0123456789abcdef",
            "abcdefghijklmnopqrstuvwxyz012345",
            "my-very-long-Secret-for-my-vmcp-1",
            "please-change-me-8f3k2j5h6g7d9s0a",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
        ] {
            assert!(is_weak(&weak.as_bytes().to_vec().into()), "{weak}");
        }
        for good in [
            "9f86d081884c7d659a2feaa0c55ad015",
            "a3bf4f1b2b0b822cd15d6c15b0f00a089f86d081884c7d659a2feaa0c55ad015",
            "n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg=",
        ] {
            assert!(!is_weak(&good.as_bytes().to_vec().into()), "{good}");
        }
    }

    #[test]
    fn accepts_random_bytes() {
        for _ in 0..1000 {
            let mut bytes = vec![0; 32];
            getrandom::fill(&mut bytes).unwrap();
            assert!(!is_weak(&bytes.clone().into()), "{bytes:?}");
        }
    }
}
