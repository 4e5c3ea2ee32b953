//! Limits of one rendering.

/// Limits of one rendering.
///
/// # Defaults
///
/// - `max_output_bytes`: 10 MiB
/// - `max_memory_bytes`: 40 MiB
/// - `max_depth`: 100
/// - `max_steps`: 1,000,000
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of the rendered text, in bytes.
    pub max_output_bytes: usize,
    /// Maximum size of all results of functions together, in bytes. A text that `fromJson` parses counts 16 times.
    pub max_memory_bytes: usize,
    /// Maximum number of nested calls of templates (`template`, `block`).
    pub max_depth: usize,
    /// Maximum number of evaluated actions, operands and iterations.
    pub max_steps: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_output_bytes: 10 * 1024 * 1024,
            max_memory_bytes: 40 * 1024 * 1024,
            max_depth: 100,
            max_steps: 1_000_000,
        }
    }
}
