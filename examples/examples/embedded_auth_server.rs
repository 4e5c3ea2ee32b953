//! An axum service that is its own OAuth issuer: clients discover it, register, send their user through the identity
//! provider, and get tokens that this service verifies. Nothing in it is specific to MCP.
//!
//! The `curl` commands show the requests of a client and its browser; `$client` and the other variables are values of
//! earlier responses. The provider is in this file too and accepts every user, so its login page is left out.
//!
//! ```text
//! $ cargo run -p vmcp-examples --example embedded_auth_server -- 127.0.0.1:8080
//! listening on 127.0.0.1:8080
//!
//! $ curl -i http://127.0.0.1:8080/notes
//! HTTP/1.1 401 Unauthorized
//! www-authenticate: Bearer resource_metadata="…/.well-known/oauth-protected-resource/notes", scope="openid"
//!
//! $ curl http://127.0.0.1:8080/.well-known/oauth-protected-resource/notes
//! {…"authorization_servers":["http://127.0.0.1:8080"]…}
//!
//! $ curl http://127.0.0.1:8080/oauth/register -H 'Content-Type: application/json' \
//!     -d '{"client_name":"curl","redirect_uris":["http://127.0.0.1:9/back"]}'
//! {"client_id":"$client"…}
//!
//! $ curl -i "http://127.0.0.1:8080/oauth/authorize?response_type=code&client_id=$client&code_challenge_method=S256&code_challenge=h_tyVlgbw46qn1LiGOKErj6g-3pPFnw7V_Z-TZ-56oQ"
//! HTTP/1.1 200 OK
//! set-cookie: $cookie; Path=/;…
//! …name="id" value="$id"…name="csrf" value="$csrf"…
//!
//! $ curl http://127.0.0.1:8080/oauth/consent -H "Cookie: $cookie" -d "id=$id&csrf=$csrf&decision=allow"
//! …/provider/login?…state=$state&…
//!
//! $ curl -i "http://127.0.0.1:8080/callback?code=ann&state=$state" -H "Cookie: $cookie"
//! HTTP/1.1 303 See Other
//! location: http://127.0.0.1:9/back?code=$code&iss=…
//!
//! $ curl http://127.0.0.1:8080/oauth/token \
//!     -d "grant_type=authorization_code&code=$code&client_id=$client&code_verifier=verifier-verifier-verifier-verifier-verifie"
//! {"access_token":"$token","token_type":"Bearer"…}
//!
//! $ curl http://127.0.0.1:8080/notes -H "Authorization: Bearer $token"
//! your notes, which the provider keeps for token-of-ann
//! ```

use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::routing::{get, post};
use axum::{Extension, Router};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use secrecy::ExposeSecret;
use tokio::net::TcpListener;
use vmcp_auth_server::{
    AccessTokenVerifier, Audience, Audiences, AuthServer, HmacKeyRing, IssuerUrl, Settings,
    SigningKeys, Upstream,
};
use vmcp_auth_store::{Limits, MemoryStore};
use vmcp_authn::{
    AuthError, AuthenticationFuture, AuthenticationLayer, BearerAuthenticator, ProtectedResource,
    ResourceOptions, TokenVerifier,
};
use vmcp_core::{BoxError, Clock, Identity, UpstreamKind};
use vmcp_egress::{Egress, FetchAddresses, FetchPolicy, Fetcher};
use vmcp_upstream::{Client, Endpoint, Kind, MemoryRegistrations, Oauth2, Provider, StaticClient};

/// Handler of the application. The provider's token of the user is available, already refreshed, for upstream requests on
/// the user's behalf.
async fn notes(Extension(caller): Extension<Identity>) -> Result<String, StatusCode> {
    let upstream = caller.upstream().ok_or(StatusCode::UNAUTHORIZED)?;
    let token = upstream.token("corp", UpstreamKind::Access).await;
    let token = token.map_err(|_| StatusCode::UNAUTHORIZED)?;
    Ok(format!("your notes, which the provider keeps for {}\n", token.value.expose_secret()))
}

/// Verifier of access tokens. This process signed them, so verification needs no network request.
struct Own(AuthServer, AccessTokenVerifier);

impl TokenVerifier for Own {
    fn verify<'a>(&'a self, token: &'a str) -> AuthenticationFuture<'a> {
        let Self(server, tokens) = self;
        let found = tokens.verify(token).map(|found| {
            Identity::builder(server.settings().issuer.as_str(), &found.subject)
                .claims(found.claims)
                .expires_at(found.expires_at)
                .upstream(server.upstream_tokens(found.session))
                .build()
        });
        Box::pin(ready(found.map_err(|fault| AuthError::InvalidToken(fault.to_string().into()))))
    }
}

/// Returns the issuer at `base` for tokens of `resource`.
fn issuer(base: &str, resource: &str) -> Result<AuthServer, BoxError> {
    let provider = vmcp_upstream::Settings {
        name: "corp".into(),
        // `Kind::Oidc` discovers all endpoints from the provider's issuer.
        kind: Kind::Oauth2(Box::new(Oauth2 {
            authorization_endpoint: Endpoint::new(&format!("{base}/provider/login"))?,
            token_endpoint: Endpoint::new(&format!("{base}/provider/token"))?,
            client: Client::Static(StaticClient::new("notes", None)?),
            token_mapping: None,
            user_info: None,
        })),
        redirect_uri: Endpoint::new(&format!("{base}/callback"))?,
        scopes: vmcp_upstream::Scopes::default(),
        params: vmcp_upstream::Params::default(),
        client_name: "Notes".into(),
    };
    // An application's own provider may be on any network; this one uses plain HTTP.
    let policy =
        FetchPolicy { addresses: FetchAddresses::Any, http: true, ..FetchPolicy::supplied() };
    let http = Fetcher::new(Egress::default(), policy)?;
    let memory = Arc::new(MemoryRegistrations);
    let provider = Provider::new(provider, http.clone(), http, memory, Clock::system())?;
    let audiences = Audiences::new(vec![Audience::parse(resource)?]).ok_or("no audience")?;
    // Without keys and secrets from files, and with the in-memory store, all state ends with the process.
    let keys = SigningKeys::new::<Vec<u8>>(&[]).map_err(|(_, fault)| fault)?;
    let hmac = HmacKeyRing::new(&[]).map_err(|(_, fault)| fault)?;
    let settings = Settings::new(IssuerUrl::parse(base)?, audiences, keys, hmac);
    let store = Arc::new(MemoryStore::new(Limits::default(), Clock::system()));
    let providers: Vec<Arc<dyn Upstream>> = vec![Arc::new(provider)];
    Ok(AuthServer::new(settings, store, providers, Clock::system())?)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = TcpListener::bind(address).await?;
    let base = format!("http://{}", listener.local_addr()?);
    let resource = format!("{base}/notes");
    let server = issuer(&base, &resource)?;
    let own = Own(server.clone(), server.verifier(&resource).ok_or("another resource")?);
    let described = ProtectedResource::new(&resource, &base, &[""; 0], ResourceOptions::default())?;
    let document = described.document().clone();
    let door = AuthenticationLayer::new(BearerAuthenticator::new(own)).resource(described);
    let token = r#"{"access_token":"token-of-ann","token_type":"Bearer"}"#;
    let provider = post(async move || ([(CONTENT_TYPE, "application/json")], token));
    let metadata = get(async move || ([(CONTENT_TYPE, "application/json")], document));
    let application = Router::new()
        .route("/notes", get(notes).layer(door))
        .route("/.well-known/oauth-protected-resource/notes", metadata)
        .route("/provider/token", provider)
        .merge(server.router());
    println!("listening on {}", listener.local_addr()?);
    // The rate limit counts by client address.
    let service = application.into_make_service_with_connect_info::<SocketAddr>();
    Ok(axum::serve(listener, service).await?)
}
