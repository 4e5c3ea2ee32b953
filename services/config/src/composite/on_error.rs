//! Handling of a step's failure.

use super::placeholder::or_placeholder;
use crate::{
    config_value::{Constraint, Rule, Variant, keyword_enum, raw_conversion, section},
    context::Context,
    duration::Duration,
    tree::Node,
};

/// Handling of a step's failure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum OnError {
    /// The tool fails.
    #[default]
    Abort,
    /// The tool continues with `default_results`.
    Continue,
    /// The step is retried.
    Retry {
        /// Number of retries.
        count: u32,
        /// Delay before a retry. `None` leaves the delay to the engine.
        delay: Option<Duration>,
    },
}

keyword_enum! {
    /// Handling of a step's failure.
    enum OnErrorTag {
        /// The tool fails.
        Abort = "abort",
        /// The tool continues.
        Continue = "continue",
        /// The step is retried.
        Retry = "retry",
    }
}

section! {
    /// Handling of a step's failure.
    struct RawOnError {
        /// abort fails the tool, continue uses defaultResults, retry repeats the step.
        action: OnErrorTag = OnErrorTag::Abort;
        /// Number of retries, 1 to 10. Only with `action: retry`.
        retry_count: Option<u32>, [Constraint::Range(1, 10)];
        /// Delay before a retry. Only with `action: retry`.
        retry_delay: Option<Duration>;
    }
    rules [Rule::Variants {
        tag: "action",
        default: Some("abort"),
        variants: &[
            Variant { value: "abort", requires: &[], forbids: &["retryCount", "retryDelay"] },
            Variant { value: "continue", requires: &[], forbids: &["retryCount", "retryDelay"] },
            Variant { value: "retry", requires: &["retryCount"], forbids: &[] },
        ],
    }]
}

raw_conversion!(OnError as RawOnError);

// === impl OnError ===

impl OnError {
    #[allow(clippy::needless_pass_by_value)] // The signature is that of every raw conversion.
    fn from_raw(raw: RawOnError, _: &Node, cx: &mut Context) -> Option<Self> {
        let RawOnError { action, retry_count, retry_delay } = raw;
        match action {
            OnErrorTag::Abort => Some(Self::Abort),
            OnErrorTag::Continue => Some(Self::Continue),
            OnErrorTag::Retry => {
                let count = or_placeholder(retry_count, cx.is_lossy(), || 1)?;
                Some(Self::Retry { count, delay: retry_delay })
            }
        }
    }

    // The signature is that of every raw conversion.
    #[allow(clippy::trivially_copy_pass_by_ref, clippy::wrong_self_convention)]
    fn to_raw(&self) -> RawOnError {
        let (action, retry_count, retry_delay) = match *self {
            Self::Abort => (OnErrorTag::Abort, None, None),
            Self::Continue => (OnErrorTag::Continue, None, None),
            Self::Retry { count, delay } => (OnErrorTag::Retry, Some(count), delay),
        };
        RawOnError { action, retry_count, retry_delay }
    }
}
