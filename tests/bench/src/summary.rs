//! Percentiles and medians.

use std::time::Duration;

/// Returns the percentile at `per_mille` by nearest rank. `sorted` is ascending; an empty slice yields zero.
#[must_use]
pub fn percentile(sorted: &[Duration], per_mille: usize) -> Duration {
    let rank = (sorted.len() * per_mille).div_ceil(1000);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// Returns the median, with the mean of the two middle values of an even number. An empty slice yields zero.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.len() % 2, values.get(middle)) {
        (_, None) => 0.0,
        (1, Some(value)) => *value,
        (_, Some(upper)) => f64::midpoint(values[middle - 1], *upper),
    }
}

/// Converts a duration to microseconds.
#[must_use]
pub fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up_to(count: u64) -> Vec<Duration> {
        (1..=count).map(Duration::from_micros).collect()
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let hundred = up_to(100);
        assert_eq!(percentile(&hundred, 500), Duration::from_micros(50));
        assert_eq!(percentile(&hundred, 990), Duration::from_micros(99));
        assert_eq!(percentile(&hundred, 1000), Duration::from_micros(100));
        assert_eq!(percentile(&up_to(1), 10), Duration::from_micros(1));
        assert_eq!(percentile(&up_to(3), 500), Duration::from_micros(2));
    }

    #[test]
    fn percentiles_without_samples_are_zero() {
        assert_eq!(percentile(&[], 500), Duration::ZERO);
        assert!(median(Vec::new()).abs() < f64::EPSILON);
    }

    #[test]
    fn median_ignores_order_and_outliers() {
        assert!((median(vec![9.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(vec![4.0, 1000.0, 1.0, 2.0]) - 3.0).abs() < f64::EPSILON);
    }
}
