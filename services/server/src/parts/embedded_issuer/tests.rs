use futures_util::future::{BoxFuture, FutureExt, ready};
use http::Uri;
use secrecy::SecretSlice;
use vmcp_auth_server::{
    Audience, Audiences, HmacKeyRing, IssuerUrl, Settings, SigningKeys, Upstream,
};
use vmcp_auth_store::{Limits, MemoryStore};
use vmcp_core::Clock;
use vmcp_upstream::{
    AuthorizationResponse, Login, ProviderError, ReauthParams, RefreshError, RevocationOutcome,
    Tokens,
};

use super::*;

const RESOURCE: &str = "https://mcp.example/mcp";

/// A provider that accepts no logins.
#[derive(Debug)]
struct Closed(Uri);

impl Upstream for Closed {
    fn name(&self) -> &'static str {
        "closed"
    }

    fn redirect_uri(&self) -> &Uri {
        &self.0
    }

    fn issuer(&self) -> Option<&str> {
        None
    }

    fn issuer_id(&self) -> &'static str {
        "https://closed.example"
    }

    fn may_have_issuer(&self, _: &str) -> bool {
        true
    }

    fn begin<'a>(
        &'a self,
        _: &'a str,
        _: ReauthParams,
    ) -> BoxFuture<'a, Result<(Uri, SecretSlice<u8>), ProviderError>> {
        ready(Err(ProviderError::ConfigMismatch("closed"))).boxed()
    }

    fn finish<'a>(
        &'a self,
        _: &'a SecretSlice<u8>,
        _: AuthorizationResponse,
    ) -> BoxFuture<'a, Result<Login, ProviderError>> {
        ready(Err(ProviderError::ConfigMismatch("closed"))).boxed()
    }

    fn refresh<'a>(&'a self, _: &'a Tokens) -> BoxFuture<'a, Result<Tokens, RefreshError>> {
        ready(Err(RefreshError::GrantEnded)).boxed()
    }

    fn revoke<'a>(
        &'a self,
        _: &'a Tokens,
    ) -> BoxFuture<'a, Result<RevocationOutcome, ProviderError>> {
        ready(Ok(RevocationOutcome::Unsupported)).boxed()
    }
}

fn server() -> AuthServer {
    let settings = Settings::new(
        IssuerUrl::parse("https://mcp.example").unwrap(),
        Audiences::new(vec![Audience::parse(RESOURCE).unwrap()]).unwrap(),
        SigningKeys::new::<Vec<u8>>(&[]).unwrap(),
        HmacKeyRing::new(&[vec![7; 32].into()]).unwrap(),
    );
    let store = Arc::new(MemoryStore::new(Limits::default(), Clock::system()));
    let callback = Uri::from_static("https://mcp.example/oauth/callback");
    let upstreams: Vec<Arc<dyn Upstream>> = vec![Arc::new(Closed(callback))];
    AuthServer::new(settings, store, upstreams, Clock::system()).unwrap()
}

#[tokio::test]
async fn session_end_revokes_only_own_tokens() {
    let server = server();
    let sessions = IssuerSessions::new(&server);
    let [ended, other] = [1, 2].map(|name| SessionId::from_bytes([name; 16]));
    let of = |session| {
        let revocation = Arc::new(sessions.revocation(session));
        Identity::builder("https://mcp.example", "alice").revocation(revocation).build()
    };
    let callers = [of(ended), of(other)];
    assert_eq!(callers.each_ref().map(Identity::is_revoked), [false, false]);
    server.end_session(ended).await.unwrap();
    assert_eq!(callers.each_ref().map(Identity::is_revoked), [true, false]);
    callers[0].revoked().unwrap().await;
    assert!(callers[1].revoked().unwrap().now_or_never().is_none());
    // Another server comes in its place, such as after a reload, and knows at once what ended before.
    let after = self::server().with_shared_revocations(&server);
    sessions.replace(&after);
    assert_eq!(callers.each_ref().map(Identity::is_revoked), [true, false]);
    let ended = callers[1].revoked().unwrap();
    after.end_session(other).await.unwrap();
    assert!(callers[1].is_revoked());
    ended.await;
}
