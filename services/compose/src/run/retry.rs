//! Delays between attempts of a call.

use std::time::Duration;

use super::Jitter;
use crate::plan::Retry;

/// Largest multiple of the first delay.
const MAX_FACTOR: f64 = 60.0;
/// Factor from one delay to the next.
const FACTOR: f64 = 1.5;
/// Largest part of a delay that is added or subtracted at random.
const SPREAD: f64 = 0.5;

/// Returns the delay after `failures` failed attempts: exponential with a random part, but at least as long as the backend
/// asks for.
pub(super) fn delay(
    retry: Retry,
    failures: u32,
    jitter: &Jitter,
    retry_after: Option<Duration>,
) -> Duration {
    let exponent = i32::try_from(failures.saturating_sub(1)).unwrap_or(i32::MAX);
    let factor = FACTOR.powi(exponent).min(MAX_FACTOR);
    let spread = 1.0 + SPREAD * (2.0 * jitter.next() - 1.0);
    let delay = Duration::try_from_secs_f64(retry.delay.as_secs_f64() * factor * spread);
    delay.unwrap_or(Duration::MAX).max(retry_after.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_up_to_sixty_times() {
        let retry = Retry { count: 10, delay: Duration::from_secs(2) };
        let middle = Jitter::new(|| 0.5);
        let of = |failures| delay(retry, failures, &middle, None);
        assert_eq!(of(1), Duration::from_secs(2));
        assert_eq!(of(2), Duration::from_secs(3));
        assert_eq!(of(3), Duration::from_millis(4_500));
        assert_eq!(of(100), Duration::from_mins(2));
    }

    #[test]
    fn delay_varies_by_half() {
        let retry = Retry { count: 1, delay: Duration::from_secs(2) };
        assert_eq!(delay(retry, 1, &Jitter::new(|| 0.0), None), Duration::from_secs(1));
        let most = delay(retry, 1, &Jitter::new(|| 0.999_999), None);
        assert!(most > Duration::from_millis(2_999) && most < Duration::from_secs(3));
    }

    #[test]
    fn waits_as_long_as_backend_asks() {
        let retry = Retry { count: 1, delay: Duration::from_secs(2) };
        let asked = Some(Duration::from_secs(30));
        assert_eq!(delay(retry, 1, &Jitter::new(|| 0.5), asked), Duration::from_secs(30));
    }
}
