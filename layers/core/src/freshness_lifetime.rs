//! Freshness of HTTP responses.

use std::time::Duration;

use http::HeaderMap;
use http::header::{AGE, CACHE_CONTROL};

/// Returns the time for which a response with these headers is still fresh (RFC 9111 section 4.2): zero if it must not be
/// reused, `None` without a directive that is understood. Callers bound the value.
#[must_use]
pub fn freshness_lifetime(headers: &HeaderMap) -> Option<Duration> {
    let directives = headers
        .get_all(CACHE_CONTROL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim);
    let mut max_age = None;
    for directive in directives {
        let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
        if name.eq_ignore_ascii_case("no-store") || name.eq_ignore_ascii_case("no-cache") {
            return Some(Duration::ZERO);
        }
        if name.eq_ignore_ascii_case("max-age") {
            max_age = value.trim_matches('"').parse().ok().map(Duration::from_secs);
        }
    }
    let age = headers.get(AGE).and_then(|age| age.to_str().ok()?.parse().ok());
    let age = age.map_or(Duration::ZERO, Duration::from_secs);
    max_age.map(|max_age| max_age.saturating_sub(age))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(cache_control: &[&str], age: Option<&str>) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for value in cache_control {
            headers.append(CACHE_CONTROL, value.parse().unwrap());
        }
        if let Some(age) = age {
            headers.insert(AGE, age.parse().unwrap());
        }
        freshness_lifetime(&headers).map(|time| time.as_secs())
    }

    #[test]
    fn subtracts_age_from_max_age() {
        assert_eq!(fresh(&["public, MAX-AGE=900"], None), Some(900));
        assert_eq!(fresh(&["public", "max-age=\"900\""], Some("300")), Some(600));
        assert_eq!(fresh(&["max-age=900"], Some("5000")), Some(0));
        assert_eq!(fresh(&["max-age=900"], Some("soon")), Some(900));
        assert_eq!(fresh(&["max-age=900, no-store"], None), Some(0));
        assert_eq!(fresh(&["No-Cache"], None), Some(0));
    }

    #[test]
    fn distinguishes_missing_and_forbidding_headers() {
        assert_eq!(fresh(&[], Some("10")), None);
        assert_eq!(fresh(&["public"], None), None);
        assert_eq!(fresh(&["max-age=99999999999999999999999"], None), None);
    }
}
