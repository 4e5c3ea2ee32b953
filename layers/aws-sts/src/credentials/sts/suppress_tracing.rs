//! Futures that keep the trace events of the AWS SDK, which contain request and response bodies, out of all logs.

use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tracing::Dispatch;
use tracing::dispatcher::{get_default, with_default};

thread_local! {
    static OUTER_DISPATCH: RefCell<Option<Dispatch>> = const { RefCell::new(None) };
}

pin_project! {
    /// Future whose spans and events reach no subscriber. At trace level the SDK records tokens and credentials.
    pub(super) struct SuppressTracing<F> {
        #[pin]
        inner: F,
    }
}

pin_project! {
    /// Future inside a [`SuppressTracing`] whose spans and events reach the subscriber outside of it.
    pub(super) struct RestoreTracing<F> {
        #[pin]
        inner: F,
    }
}

// === impl SuppressTracing ===

impl<F> SuppressTracing<F> {
    pub(super) fn new(inner: F) -> Self {
        Self { inner }
    }
}

impl<F: Future> Future for SuppressTracing<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let outer = get_default(Dispatch::clone);
        let before = OUTER_DISPATCH.replace(Some(outer));
        let poll = with_default(&Dispatch::none(), || self.project().inner.poll(cx));
        OUTER_DISPATCH.set(before);
        poll
    }
}

impl<F> fmt::Debug for SuppressTracing<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quiet").finish_non_exhaustive()
    }
}

// === impl RestoreTracing ===

impl<F> RestoreTracing<F> {
    pub(super) fn new(inner: F) -> Self {
        Self { inner }
    }
}

impl<F: Future> Future for RestoreTracing<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let inner = self.project().inner;
        match OUTER_DISPATCH.with_borrow(Clone::clone) {
            Some(outer) => with_default(&outer, || inner.poll(cx)),
            None => inner.poll(cx),
        }
    }
}

impl<F> fmt::Debug for RestoreTracing<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heard").finish_non_exhaustive()
    }
}
