//! Fast path of a request that finds an idle connection, which nearly every request does.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::Response;
use pin_project_lite::pin_project;
use vmcp_core::BoxError;

use super::{Client, ResponseFuture};
use crate::{
    Incoming,
    exchange::{Exchange, ExchangeError, SendResult},
    pool::PoolGuard,
};

pin_project! {
    /// Waits for the response; retries if the connection turns out to be closed before anything was
    /// written.
    pub(crate) struct FastPathFuture<F> {
        #[pin]
        exchange: Exchange<F>,
        // `None` after completion.
        guard: Option<PoolGuard>,
        max_body: u64,
        retry: Option<ResponseFuture>,
    }
}

impl<F> FastPathFuture<F> {
    pub(crate) fn new(exchange: Exchange<F>, guard: PoolGuard, max_body: u64) -> Self {
        Self { exchange, guard: Some(guard), max_body, retry: None }
    }
}

impl<F: Future<Output = SendResult>> Future for FastPathFuture<F> {
    type Output = Result<Response<Incoming>, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(retry) = this.retry {
            return retry.as_mut().poll(cx);
        }
        let outcome = ready!(this.exchange.poll(cx));
        let guard = this.guard.take().expect("not polled after completion");
        match outcome {
            Ok(received) => Poll::Ready(
                Incoming::accept(received, guard, *this.max_body).map_err(BoxError::from),
            ),
            Err(ExchangeError { unsent: Some(request), .. }) => {
                let client = Client::of(&guard, *this.max_body);
                let retry =
                    async move { client.retry(request, guard).await.map_err(BoxError::from) };
                this.retry.insert(Box::pin(retry)).as_mut().poll(cx)
            }
            Err(ExchangeError { error, .. }) => Poll::Ready(Err(error.into())),
        }
    }
}
