//! Embeddings of texts as vectors.

use std::sync::Arc;

/// Maximum number of dimensions.
const MAX_WIDTH: usize = 8192;

/// Vector of length 1, or of zeros if the model returned those. Clones share it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Vector(Arc<[f32]>);

/// Vectors of the tools of a set, by position.
pub(crate) struct SetVectors {
    /// Number of the model that made them.
    pub(crate) generation: u64,
    /// A tool has none if its text was rejected, or if there are too many.
    pub(crate) rows: Box<[Option<Vector>]>,
}

/// Error of values that are not a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VectorError {
    /// There are no values, or too many.
    Width,
    /// A value is not a finite number.
    NotFinite,
}

impl Vector {
    /// Scales `values` to length 1.
    ///
    /// # Errors
    /// There are no values or too many, or one is not a finite number.
    pub(crate) fn new(mut values: Vec<f32>) -> Result<Self, VectorError> {
        if values.is_empty() || values.len() > MAX_WIDTH {
            return Err(VectorError::Width);
        }
        let norm = values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        if !norm.is_finite() {
            return Err(VectorError::NotFinite);
        }
        if norm > 0.0 {
            for value in &mut values {
                #[expect(clippy::cast_possible_truncation, reason = "at most 1")]
                let scaled = (f64::from(*value) / norm) as f32;
                *value = scaled;
            }
        }
        Ok(Self(values.into()))
    }

    /// Returns the number of dimensions.
    pub(crate) fn width(&self) -> usize {
        self.0.len()
    }

    /// Returns the cosine of the angle between the vectors, from -1 to 1; 0 if one of them is zero.
    pub(crate) fn similarity(&self, other: &Self) -> f32 {
        // Several sums at a time, which the compiler keeps in vector registers.
        let mut sums = [0.0_f32; 8];
        let (one, one_rest) = self.0.as_chunks::<8>();
        let (other, other_rest) = other.0.as_chunks::<8>();
        for (one, other) in one.iter().zip(other) {
            for (sum, (one, other)) in sums.iter_mut().zip(one.iter().zip(other)) {
                *sum += one * other;
            }
        }
        let rest: f32 = one_rest.iter().zip(other_rest).map(|(one, other)| one * other).sum();
        (sums.iter().sum::<f32>() + rest).clamp(-1.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similarity_is_the_cosine() {
        let vector = |values: &[f32]| Vector::new(values.to_vec()).unwrap();
        let long: Vec<f32> = (1_u8..=19).map(f32::from).collect();
        let close = |one: &Vector, other: &Vector, expected: f32| {
            (one.similarity(other) - expected).abs() < 1e-5
        };
        assert!(close(&vector(&long), &vector(&long), 1.0));
        assert!(close(&vector(&[3.0, 4.0]), &vector(&[-3.0, -4.0]), -1.0));
        assert!(close(&vector(&[3.0, 0.0]), &vector(&[0.0, 2.0]), 0.0));
        assert!(close(&vector(&[0.0, 0.0]), &vector(&[0.0, 2.0]), 0.0));
    }

    #[test]
    fn rejects_values_that_are_no_vector() {
        for values in [vec![], vec![f32::NAN], vec![f32::INFINITY, 1.0], vec![1.0; MAX_WIDTH + 1]] {
            assert!(Vector::new(values).is_err());
        }
    }
}
