//! Service that signs requests, and retries once if the service rejects the credentials as expired.

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
    Backend, BodyError, BoxError, Caller, CredentialError, CredentialErrorKind, Identity,
    collect_limited,
};

use crate::layer::AwsStsSettings;
use crate::rejection::has_expired_credentials;
use crate::subject::WebIdentityToken;
use crate::{
    AssumeRole, AwsStsLayer, Credentials, ResponseBody, RoleError, RoleSession, SigningError,
};

/// Maximum size of a signed body.
const MAX_BODY_SIZE: usize = 10 << 20;
/// Timeout for reading the request body. An aggregating service has the whole body in memory.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Lifetime of a cached signing plan.
const PLAN_TTL: Duration = Duration::from_mins(5);

/// Role session for a token, or the reason for its rejection.
pub(crate) type SigningPlan = Result<Arc<RoleSession>, CredentialErrorKind>;

/// Response future of [`AwsSts`]. It is boxed because signing awaits the request body and the credentials.
pub type ResponseFuture<R> =
    Pin<Box<dyn Future<Output = Result<Response<ResponseBody<R>>, BoxError>> + Send>>;

/// Service that signs the requests to `S`. The [crate docs](crate) contain an example.
pub struct AwsSts<S, A> {
    inner: S,
    layer: AwsStsLayer<A>,
}

// === impl AwsSts ===

impl<S, A> AwsSts<S, A> {
    pub(crate) fn new(inner: S, layer: AwsStsLayer<A>) -> Self {
        Self { inner, layer }
    }

    /// Returns a reference to the inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// Returns the inner service.
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
                // Sent unsigned: a rejection by the backend is enough to show that it is reachable.
                Some(Caller::Gateway) => {
                    remove_client_credentials(request.headers_mut());
                    let response = inner.call(request).await.map_err(Into::into)?;
                    Ok(response.map(ResponseBody::forward))
                }
                None => {
                    Err(credential_error(request.extensions().get(), CredentialErrorKind::NoCaller))
                }
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

// === impl AwsStsSettings ===

impl<A: AssumeRole> AwsStsSettings<A> {
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
        remove_client_credentials(&mut parts.headers);
        let backend = parts.extensions.get::<Backend>().cloned();
        let fault = |fault| credential_error(backend.as_ref(), fault);
        let unsignable = |error: SigningError| {
            let fault = CredentialErrorKind::Request { reason: reason(&error) };
            credential_error_with_source(backend.as_ref(), fault, Some(error.into()))
        };
        let body = read_body(body).await.map_err(unsignable)?;
        let (token, role_session, credentials) =
            tokio::time::timeout(self.timeout, self.credentials(identity))
                .await
                .unwrap_or(Err(CredentialErrorKind::Unavailable { reason: "they took too long" }))
                .map_err(fault)?;

        let first_request =
            self.sign_request(parts.clone(), &body, &credentials).map_err(unsignable)?;
        let response = inner.call(first_request).await.map_err(Into::into)?;
        let (has_expired_credentials, response) = has_expired_credentials(response).await?;
        if !has_expired_credentials {
            return Ok(response);
        }
        self.assume.invalidate(&role_session, &credentials);
        let retry = self.assume.assume(&role_session, &token.value);
        let Ok(Ok(renewed)) = tokio::time::timeout(self.timeout, retry).await else {
            return Ok(response);
        };
        if renewed.access_key_id() == credentials.access_key_id() {
            return Ok(response);
        }
        // The retry has its own date and signature.
        let second_request = self.sign_request(parts, &body, &renewed).map_err(unsignable)?;
        poll_fn(|cx| inner.poll_ready(cx)).await.map_err(Into::into)?;
        let response = inner.call(second_request).await.map_err(Into::into)?;
        Ok(response.map(ResponseBody::forward))
    }

    async fn credentials<'a>(
        &'a self,
        identity: &'a Identity,
    ) -> Result<(WebIdentityToken<'a>, Arc<RoleSession>, Arc<Credentials>), CredentialErrorKind>
    {
        let mut token = self.subject.resolve(identity).await?;
        let mut role_session = self.plan(&token)?;
        let credentials = match self.assume.assume(&role_session, &token.value).await {
            Ok(credentials) => credentials,
            Err(error) => {
                token = token.refresh(identity, error).await?;
                role_session = self.plan(&token)?;
                self.assume.assume(&role_session, &token.value).await?
            }
        };
        if credentials.expires_at() <= self.clock.now() {
            let reason = "they had expired when they came";
            return Err(CredentialErrorKind::Unavailable { reason });
        }
        Ok((token, role_session, credentials))
    }

    /// Returns the signing plan for the token. Plans are cached for [`PLAN_TTL`], so that expressions are not evaluated
    /// for each request.
    fn plan(&self, token: &WebIdentityToken<'_>) -> SigningPlan {
        let (key, now) = (token.key(), self.clock.now());
        if let Some(plan) = self.plans.get(&key, now) {
            return plan;
        }
        let plan = self.create_plan(token);
        self.plans.insert(key, plan.clone(), now + PLAN_TTL, now);
        plan
    }

    fn create_plan(&self, token: &WebIdentityToken<'_>) -> SigningPlan {
        let rejected = |reason: &str| CredentialErrorKind::Rejected { reason: reason.into() };
        let claims = token.claims();
        let role = self.roles.select(&claims).map_err(|error| match error {
            RoleError::Unmapped => rejected("no role is mapped to the caller's claims"),
            RoleError::TooCostly => {
                rejected("the caller's claims are too large for the role mappings")
            }
        })?;
        let session = token
            .session(&claims, &self.session_name_claim)
            .ok_or_else(|| rejected("the token has no claim that names the session"))?;
        let holder = token.holder_parts(&claims);
        let holder = holder.each_ref().map(AsRef::as_ref);
        Ok(Arc::new(RoleSession::new(role.clone(), session, self.duration, &holder)))
    }

    fn sign_request<B: From<Bytes>>(
        &self,
        mut parts: Parts,
        body: &Bytes,
        credentials: &Credentials,
    ) -> Result<Request<B>, SigningError> {
        let scope = (&self.region, &self.service);
        credentials.sign(&mut parts, body, scope, self.clock.now())?;
        Ok(Request::from_parts(parts, body.clone().into()))
    }
}

/// Removes the client's credentials for the gateway, which must not reach backends.
fn remove_client_credentials(headers: &mut HeaderMap) {
    headers.remove(AUTHORIZATION);
    headers.remove(PROXY_AUTHORIZATION);
}

async fn read_body<B>(body: B) -> Result<Bytes, SigningError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let body = tokio::time::timeout(BODY_TIMEOUT, collect_limited(body, MAX_BODY_SIZE)).await;
    body.map_err(|_| SigningError::TimedOut)?.map_err(|error| match error {
        BodyError::TooLarge { limit } => SigningError::TooLarge { limit },
        BodyError::Broken(error) => SigningError::Truncated(error),
    })
}

fn credential_error(backend: Option<&Backend>, kind: CredentialErrorKind) -> BoxError {
    credential_error_with_source(backend, kind, None)
}

fn credential_error_with_source(
    backend: Option<&Backend>,
    kind: CredentialErrorKind,
    source: Option<BoxError>,
) -> BoxError {
    let backend = backend.cloned().unwrap_or_else(|| Backend::new("unnamed"));
    Box::new(CredentialError { backend, kind, source })
}

/// Returns the reason that the client sees for a request that cannot be signed.
fn reason(error: &SigningError) -> &'static str {
    match error {
        SigningError::TooLarge { .. } => "its body is larger than 10 MiB",
        SigningError::Truncated(_) => "its body broke off",
        SigningError::TimedOut => "its body did not end in time",
        SigningError::NoHost => "it names no host",
        SigningError::Malformed(_) => "its target or headers cannot be signed",
    }
}

#[cfg(test)]
mod tests;
