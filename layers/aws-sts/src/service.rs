//! A request on its way: whose it is, in which role, signed, and once more if that was too late.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, PROXY_AUTHORIZATION};
use http::request::Parts;
use http::{HeaderMap, Request, Response};
use tower_service::Service;
use vmcp_core::{
    Backend, BodyError, BoxError, Caller, CredentialError, CredentialFault, Identity, read,
};

use crate::layer::Settings;
use crate::refusal::outdated;
use crate::subject::Presented;
use crate::{
    AssumeRole, Assumption, AwsStsLayer, Credentials, NoRole, ResponseBody, UnsignableRequest,
};

/// The largest body that is signed.
const LARGEST: usize = 10 << 20;
/// How long a request's body may take. That of an aggregating service is there at once.
const PATIENCE: Duration = Duration::from_secs(30);
/// For how long it is remembered which role a token leads to.
const REMEMBERED: Duration = Duration::from_mins(5);

/// Which role a token leads to, or why none.
pub(crate) type Plan = Result<Arc<Assumption>, CredentialFault>;

/// What [`AwsSts`] answers with. Boxed: signing waits for the body and for credentials.
pub type ResponseFuture<R> =
    Pin<Box<dyn Future<Output = Result<Response<ResponseBody<R>>, BoxError>> + Send>>;

/// Signs what goes to `S`. See the [crate docs](crate) for an example.
pub struct AwsSts<S, A> {
    inner: S,
    layer: AwsStsLayer<A>,
}

// === impl AwsSts ===

impl<S, A> AwsSts<S, A> {
    pub(crate) fn new(inner: S, layer: AwsStsLayer<A>) -> Self {
        Self { inner, layer }
    }

    /// The wrapped service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Unwraps the service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, A, B, R> Service<Request<B>> for AwsSts<S, A>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    A: AssumeRole,
    B: http_body::Body<Data = Bytes> + From<Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: http_body::Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody<R>>;
    type Error = BoxError;
    type Future = ResponseFuture<R>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let settings = Arc::clone(&self.layer.settings);
        Box::pin(async move {
            match request.extensions().get::<Caller>() {
                Some(Caller::User(identity)) => {
                    let identity = identity.clone();
                    settings.send(&mut inner, request, &identity).await
                }
                // Unsigned: that the backend refuses it shows that it is there.
                Some(Caller::Gateway) => {
                    strip(request.headers_mut());
                    let answer = inner.call(request).await.map_err(Into::into)?;
                    Ok(answer.map(ResponseBody::passed))
                }
                None => Err(failed(request.extensions().get(), CredentialFault::NoCaller)),
            }
        })
    }
}

impl<S: Clone, A> Clone for AwsSts<S, A> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), layer: self.layer.clone() }
    }
}

impl<S, A> fmt::Debug for AwsSts<S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwsSts").field("layer", &self.layer).finish_non_exhaustive()
    }
}

// === impl Settings ===

impl<A: AssumeRole> Settings<A> {
    async fn send<S, B, R>(
        &self,
        inner: &mut S,
        request: Request<B>,
        identity: &Identity,
    ) -> Result<Response<ResponseBody<R>>, BoxError>
    where
        S: Service<Request<B>, Response = Response<R>>,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + From<Bytes>,
        B::Error: Into<BoxError>,
        R: http_body::Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        let (mut parts, body) = request.into_parts();
        strip(&mut parts.headers);
        let backend = parts.extensions.get::<Backend>().cloned();
        let fault = |fault| failed(backend.as_ref(), fault);
        let unsignable = |error: UnsignableRequest| {
            let fault = CredentialFault::Request { reason: reason(&error) };
            refused(backend.as_ref(), fault, Some(error.into()))
        };
        let body = whole(body).await.map_err(unsignable)?;
        let (presented, assumption, credentials) =
            tokio::time::timeout(self.deadline, self.credentials(identity))
                .await
                .unwrap_or(Err(CredentialFault::Unavailable { reason: "they took too long" }))
                .map_err(fault)?;

        let first = self.signed(parts.clone(), &body, &credentials).map_err(unsignable)?;
        let answer = inner.call(first).await.map_err(Into::into)?;
        let (outdated, answer) = outdated(answer).await?;
        if !outdated {
            return Ok(answer);
        }
        self.assume.forget(&assumption, &credentials);
        let again = self.assume.assume(&assumption, &presented.token);
        let Ok(Ok(renewed)) = tokio::time::timeout(self.deadline, again).await else {
            return Ok(answer);
        };
        if renewed.access_key_id() == credentials.access_key_id() {
            return Ok(answer);
        }
        // With a date and a signature of its own.
        let second = self.signed(parts, &body, &renewed).map_err(unsignable)?;
        poll_fn(|cx| inner.poll_ready(cx)).await.map_err(Into::into)?;
        let answer = inner.call(second).await.map_err(Into::into)?;
        Ok(answer.map(ResponseBody::passed))
    }

    async fn credentials<'a>(
        &'a self,
        identity: &'a Identity,
    ) -> Result<(Presented<'a>, Arc<Assumption>, Arc<Credentials>), CredentialFault> {
        let mut presented = self.subject.of(identity).await?;
        let mut assumption = self.plan(&presented)?;
        let credentials = match self.assume.assume(&assumption, &presented.token).await {
            Ok(credentials) => credentials,
            Err(error) => {
                presented = presented.renewed(identity, error).await?;
                assumption = self.plan(&presented)?;
                self.assume.assume(&assumption, &presented.token).await?
            }
        };
        if credentials.expires_at() <= self.clock.now() {
            let reason = "they had expired when they came";
            return Err(CredentialFault::Unavailable { reason });
        }
        Ok((presented, assumption, credentials))
    }

    /// Which role the token leads to, remembered for a while: expressions are evaluated once per
    /// token.
    fn plan(&self, presented: &Presented<'_>) -> Plan {
        let (key, now) = (presented.key(), self.clock.now());
        if let Some(plan) = self.plans.get(&key, now) {
            return plan;
        }
        let plan = self.planned(presented);
        self.plans.insert(key, plan.clone(), now + REMEMBERED, now);
        plan
    }

    fn planned(&self, presented: &Presented<'_>) -> Plan {
        let refused = |reason: &str| CredentialFault::Refused { reason: reason.into() };
        let claims = presented.claims();
        let role = self.roles.choose(&claims).map_err(|error| match error {
            NoRole::Unmapped => refused("no role is mapped to the caller's claims"),
            NoRole::TooCostly => refused("the caller's claims are too large for the role mappings"),
        })?;
        let session = presented
            .session(&claims, &self.session_name_claim)
            .ok_or_else(|| refused("the token has no claim that names the session"))?;
        let holder = presented.holder(&claims);
        let holder = holder.each_ref().map(AsRef::as_ref);
        Ok(Arc::new(Assumption::new(role.clone(), session, self.duration, &holder)))
    }

    fn signed<B: From<Bytes>>(
        &self,
        mut parts: Parts,
        body: &Bytes,
        credentials: &Credentials,
    ) -> Result<Request<B>, UnsignableRequest> {
        let scope = (&self.region, &self.service);
        credentials.sign(&mut parts, body, scope, self.clock.now())?;
        Ok(Request::from_parts(parts, body.clone().into()))
    }
}

/// What a client sent to the gateway is not for backends.
fn strip(headers: &mut HeaderMap) {
    headers.remove(AUTHORIZATION);
    headers.remove(PROXY_AUTHORIZATION);
}

async fn whole<B>(body: B) -> Result<Bytes, UnsignableRequest>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let body = tokio::time::timeout(PATIENCE, read(body, LARGEST)).await;
    body.map_err(|_| UnsignableRequest::TooSlow)?.map_err(|error| match error {
        BodyError::TooLarge { limit } => UnsignableRequest::TooLarge { limit },
        BodyError::Broken(error) => UnsignableRequest::Broken(error),
    })
}

fn failed(backend: Option<&Backend>, fault: CredentialFault) -> BoxError {
    refused(backend, fault, None)
}

fn refused(
    backend: Option<&Backend>,
    fault: CredentialFault,
    source: Option<BoxError>,
) -> BoxError {
    let backend = backend.cloned().unwrap_or_else(|| Backend::new("unnamed"));
    Box::new(CredentialError { backend, fault, source })
}

/// What a client may be told of a request that cannot be signed.
fn reason(error: &UnsignableRequest) -> &'static str {
    match error {
        UnsignableRequest::TooLarge { .. } => "its body is larger than 10 MiB",
        UnsignableRequest::Broken(_) => "its body broke off",
        UnsignableRequest::TooSlow => "its body did not end in time",
        UnsignableRequest::NoHost => "it names no host",
        UnsignableRequest::Malformed(_) => "its target or headers cannot be signed",
    }
}

#[cfg(test)]
mod tests;
