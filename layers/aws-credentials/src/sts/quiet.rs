//! Keeping the SDK's records of requests and answers, bodies included, out of every log.

use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tracing::Dispatch;
use tracing::dispatcher::{get_default, with_default};

thread_local! {
    static OUTSIDE: RefCell<Option<Dispatch>> = const { RefCell::new(None) };
}

pin_project! {
    /// A future none of whose spans and events reach anybody. At its trace level the SDK records
    /// tokens and credentials.
    pub(super) struct Quiet<F> {
        #[pin]
        inner: F,
    }
}

pin_project! {
    /// A future within a [`Quiet`] one that is heard by whoever hears what is around that.
    pub(super) struct Heard<F> {
        #[pin]
        inner: F,
    }
}

// === impl Quiet ===

impl<F> Quiet<F> {
    pub(super) fn new(inner: F) -> Self {
        Self { inner }
    }
}

impl<F: Future> Future for Quiet<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let outside = get_default(Dispatch::clone);
        let before = OUTSIDE.replace(Some(outside));
        let polled = with_default(&Dispatch::none(), || self.project().inner.poll(cx));
        OUTSIDE.set(before);
        polled
    }
}

impl<F> fmt::Debug for Quiet<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quiet").finish_non_exhaustive()
    }
}

// === impl Heard ===

impl<F> Heard<F> {
    pub(super) fn new(inner: F) -> Self {
        Self { inner }
    }
}

impl<F: Future> Future for Heard<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let inner = self.project().inner;
        match OUTSIDE.with_borrow(Clone::clone) {
            Some(outside) => with_default(&outside, || inner.poll(cx)),
            None => inner.poll(cx),
        }
    }
}

impl<F> fmt::Debug for Heard<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heard").finish_non_exhaustive()
    }
}
