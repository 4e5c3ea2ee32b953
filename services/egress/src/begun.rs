//! A request that found an idle connection, which is nearly every one.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::Response;
use pin_project_lite::pin_project;
use vmcp_core::BoxError;

use crate::{
    Client, Incoming,
    client::ResponseFuture,
    exchange::{Answer, Exchange, Failure},
    pool::Lease,
};

pin_project! {
    /// Waits for the answer, and begins anew if the connection turns out to be closed before anything
    /// was written.
    pub(crate) struct Begun<F> {
        #[pin]
        exchange: Exchange<F>,
        // `None` once it is answered.
        lease: Option<Lease>,
        max_body: u64,
        again: Option<ResponseFuture>,
    }
}

impl<F> Begun<F> {
    pub(crate) fn new(exchange: Exchange<F>, lease: Lease, max_body: u64) -> Self {
        Self { exchange, lease: Some(lease), max_body, again: None }
    }
}

impl<F: Future<Output = Answer>> Future for Begun<F> {
    type Output = Result<Response<Incoming>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(again) = this.again {
            return again.as_mut().poll(cx);
        }
        let outcome = ready!(this.exchange.poll(cx));
        let Some(lease) = this.lease.take() else { return Poll::Pending };
        match outcome {
            Ok(answered) => {
                Poll::Ready(answered.accept(lease, *this.max_body).map_err(BoxError::from))
            }
            Err(Failure { unsent: Some(request), .. }) => {
                let client = Client::of(&lease, *this.max_body);
                let again =
                    async move { client.again(request, lease).await.map_err(BoxError::from) };
                this.again.insert(Box::pin(again)).as_mut().poll(cx)
            }
            Err(Failure { error, .. }) => Poll::Ready(Err(error.into())),
        }
    }
}
