//! W3C trace context (level 1) in HTTP headers and in the `_meta` of MCP messages.
//!
//! A [`TraceContext`] contains the values of `traceparent` and `tracestate`. It is read from headers or from the `_meta`
//! of a message, and written into both; a [`Propagator`] writes it into a request body. The module neither samples nor
//! records spans, and does not use OpenTelemetry.
//!
//! ```rust
//! use std::num::NonZero;
//!
//! use http::HeaderMap;
//! use vmcp_telemetry::trace_context::TraceContext;
//!
//! let meta = br#"{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}"#;
//! let parent = TraceContext::from_meta(meta).ok_or("no parent")?;
//! let span = parent.child(NonZero::new(0xb7ad_6b71_6920_3331).ok_or("no id")?);
//!
//! let mut headers = HeaderMap::new();
//! span.inject(&mut headers);
//! assert_eq!(headers["traceparent"], "00-4bf92f3577b34da6a3ce929d0e0e4736-b7ad6b7169203331-01");
//! # Ok::<(), &str>(())
//! ```
//!
//! | Limit | Value |
//! |---|---|
//! | `tracestate` | 512 bytes; a longer one is dropped |
//! | edited message | 1 MiB; a larger one is forwarded unchanged |
//!
//! An invalid context is ignored: several `traceparent` headers, a malformed one, or ids of zeros.

mod context;
mod propagator;

pub use self::{
    context::TraceContext,
    propagator::{HeaderPropagation, MetaPropagation, Propagator},
};
