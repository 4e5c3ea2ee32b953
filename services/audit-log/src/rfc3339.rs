//! RFC 3339 timestamps in UTC.

use std::time::{Duration, SystemTime};

/// Formats `at` with milliseconds, in quotes, such as `"2026-01-02T03:04:05.678Z"`. Times before
/// 1970 are formatted as 1970; the year has four digits.
pub(crate) fn quoted(at: SystemTime) -> [u8; 26] {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let mut text = *b"\"0000-00-00T00:00:00.000Z\"";
    digits(&mut text[1..5], year);
    digits(&mut text[6..8], month);
    digits(&mut text[9..11], day);
    digits(&mut text[12..14], hour);
    digits(&mut text[15..17], minute);
    digits(&mut text[18..20], second);
    digits(&mut text[21..24], since.subsec_millis().into());
    text
}

/// Writes the last decimal digits of a number, as many as fit.
fn digits(field: &mut [u8], mut number: u64) {
    for digit in field.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Returns year, month and day of the Gregorian calendar, `days` after 1970-01-01.
fn civil_date(days: u64) -> (u64, u64, u64) {
    // Years start on March 1 here, so that the leap day is the last day of its year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_known_days() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.250Z"),
            (951_782_400, "2000-02-29T00:00:00.250Z"),
            (1_709_210_096, "2024-02-29T12:34:56.250Z"),
            (1_735_689_599, "2024-12-31T23:59:59.250Z"),
            (4_107_542_400, "2100-03-01T00:00:00.250Z"),
        ] {
            let at = SystemTime::UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 250);
            assert_eq!(str::from_utf8(&quoted(at)).unwrap(), format!("\"{expected}\""));
        }
    }
}
