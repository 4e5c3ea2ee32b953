#![doc = include_str!("../README.md")]
#![expect(clippy::missing_panics_doc, reason = "a panic fails the test that causes it")]

mod log_capture;
mod signing_key;

pub use self::log_capture::LogCapture;
pub use self::signing_key::SigningKey;
