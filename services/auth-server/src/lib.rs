#![doc = include_str!("../README.md")]

use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{get, post};
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, Method, StatusCode};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{Any as AnyOrigin, CorsLayer};

use self::authorize::AuthorizeEndpoint;
use self::callback::{CallbackEndpoint, UpstreamLinks};
use self::clients::Clients;
use self::connections::ConnectionsEndpoint;
use self::consent::ConsentEndpoint;
use self::discovery::DiscoveryDocuments;
use self::error::OAuthError;
use self::introspection::IntrospectionEndpoint;
use self::login::LoginRedirector;
use self::page::Pages;
use self::registration::RegistrationEndpoint;
use self::revocation::RevocationEndpoint;
use self::token::{CodeRedemption, GrantRefresh, TokenEndpoint, TokenIssuer};
use self::token_identifier::TokenIdentifier;
use self::upstream_provider::UpstreamProvider;
use self::userinfo::UserinfoEndpoint;

mod access_token;
mod audience;
mod auth_server;
mod authorize;
mod browser_cookie;
mod callback;
mod client_credentials;
mod client_id_metadata;
mod client_name;
mod clients;
mod connections;
mod consent;
mod discovery;
mod error;
mod error_page;
mod event;
mod event_reporter;
mod extract;
mod introspection;
mod issuer_url;
mod jwks;
mod lifespans;
mod login;
mod page;
mod params;
mod path;
mod provider_error;
mod random_tokens;
mod rate_limits;
mod redirect_uri;
mod registration;
mod response;
mod revocation;
mod revoked_sessions;
mod scope;
mod sessions;
mod settings;
mod signing_keys;
mod start_error;
mod stored_registrations;
mod token;
mod token_claims;
mod token_identifier;
mod token_request;
mod upstream;
mod upstream_cipher;
mod upstream_provider;
mod upstream_token_cache;
mod upstream_tokens;
mod userinfo;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use self::{
    access_token::{AccessToken, AccessTokenError, AccessTokenVerifier},
    audience::{Audience, AudienceError, Audiences},
    auth_server::{AuthServer, Stats},
    client_id_metadata::{ClientMetadataError, MAX_DOCUMENT},
    event::{
        Event, EventContext, EventKind, LinkLossReason, Observer, Rejection, ReplayedToken,
        RevokedBy,
    },
    extract::MAX_BODY,
    issuer_url::{IssuerUrl, IssuerUrlError},
    lifespans::{LifespanError, Lifespans},
    random_tokens::{HmacKeyError, HmacKeyRing, MIN_HMAC_SECRET},
    rate_limits::RateLimits,
    redirect_uri::{MAX_REDIRECT_URI, RedirectKind, RedirectUri, RedirectUriError},
    registration::MAX_REDIRECT_URIS,
    scope::{MAX_SCOPES, ScopeError, Scopes},
    settings::Settings,
    signing_keys::{MAX_SIGNING_KEYS, SigningKeyError, SigningKeys},
    start_error::{ProviderCheckError, StartError},
    stored_registrations::StoredRegistrations,
    upstream::Upstream,
};
pub use vmcp_core::Rate;

impl AuthServer {
    /// Returns the routes, at the paths given by the issuer's address and the providers' redirect URIs. The client address
    /// comes from a `SocketAddr` in the request's extensions, or axum's `ConnectInfo`.
    pub fn router(&self) -> Router {
        Router::new()
            .merge(self.public_routes().layer(cors()).layer(from_fn(empty_preflight)))
            .merge(self.introspection_routes())
            .merge(self.page_routes())
            .layer(CatchPanicLayer::custom(respond_to_panic))
    }

    /// Returns the endpoints that ignore cookies: scripts of any site may call them.
    fn public_routes(&self) -> Router {
        let Self { settings, store, clock, limiters, sessions, events, verifiers, .. } = self;
        let token = Arc::new(TokenEndpoint {
            limiters: Arc::clone(limiters),
            events: events.clone(),
            redemption: CodeRedemption {
                settings: Arc::clone(settings),
                store: Arc::clone(store),
                clock: clock.clone(),
                sessions: sessions.clone(),
                issuer: TokenIssuer::new(Arc::clone(settings), clock.clone()),
            },
            refresh: GrantRefresh {
                settings: Arc::clone(settings),
                store: Arc::clone(store),
                clients: self.clients(),
                sessions: sessions.clone(),
                upstream_tokens: Arc::clone(&self.upstream_tokens),
                issuer: TokenIssuer::new(Arc::clone(settings), clock.clone()),
            },
        });
        let revocation = Arc::new(RevocationEndpoint {
            store: Arc::clone(store),
            limiters: Arc::clone(limiters),
            events: events.clone(),
            sessions: sessions.clone(),
            identifier: self.token_identifier(),
        });
        let registration = Arc::new(RegistrationEndpoint {
            settings: Arc::clone(settings),
            store: Arc::clone(store),
            clock: clock.clone(),
            limiters: Arc::clone(limiters),
            events: events.clone(),
        });
        let userinfo = Arc::new(UserinfoEndpoint {
            limiters: Arc::clone(limiters),
            verifiers: Arc::clone(verifiers),
        });
        let base = settings.issuer.path();
        Router::new()
            .route(&format!("{base}{}", path::TOKEN), post(token::token).with_state(token))
            .route(
                &format!("{base}{}", path::REVOKE),
                post(revocation::revoke).with_state(revocation),
            )
            .route(
                &format!("{base}{}", path::REGISTER),
                post(registration::register).with_state(registration),
            )
            .route(
                &format!("{base}{}", path::USERINFO),
                get(userinfo::userinfo).post(userinfo::userinfo).with_state(userinfo),
            )
            .merge(self.document_routes())
    }

    /// Returns the key set and the discovery documents.
    fn document_routes(&self) -> Router {
        let Self { settings, client_metadata, .. } = self;
        let documents = Arc::new(DiscoveryDocuments::new(settings, client_metadata.is_some()));
        let jwks = get(jwks::jwks).with_state(Arc::clone(settings));
        let mut router =
            Router::new().route(&format!("{}{}", settings.issuer.path(), path::JWKS), jwks);
        for path in settings.document_paths(path::OAUTH) {
            router = router.route(&path, get(discovery::oauth).with_state(Arc::clone(&documents)));
        }
        for path in settings.document_paths(path::OPENID) {
            router = router.route(&path, get(discovery::openid).with_state(Arc::clone(&documents)));
        }
        router
    }

    /// Returns the introspection endpoint, which only clients with a secret call: no scripts of other sites.
    fn introspection_routes(&self) -> Router {
        let Self { settings, store, limiters, events, .. } = self;
        let introspection = Arc::new(IntrospectionEndpoint {
            settings: Arc::clone(settings),
            store: Arc::clone(store),
            limiters: Arc::clone(limiters),
            events: events.clone(),
            identifier: self.token_identifier(),
        });
        let path = format!("{}{}", settings.issuer.path(), path::INTROSPECT);
        Router::new().route(&path, post(introspection::introspect).with_state(introspection))
    }

    /// Returns the pages and callbacks, which browsers open with the cookie.
    fn page_routes(&self) -> Router {
        let Self { settings, store, clock, providers, limiters, cipher, sessions, events, .. } =
            self;
        let pages = Arc::new(Pages::new(&settings.display_name));
        let logins = LoginRedirector::new(Arc::clone(settings), Arc::clone(store), cipher.clone());
        let authorize = Arc::new(AuthorizeEndpoint {
            settings: Arc::clone(settings),
            store: Arc::clone(store),
            clock: clock.clone(),
            providers: providers.clone(),
            limiters: Arc::clone(limiters),
            pages: Arc::clone(&pages),
            events: events.clone(),
            clients: self.clients(),
            logins: logins.clone(),
        });
        let consent = Arc::new(ConsentEndpoint {
            settings: Arc::clone(settings),
            store: Arc::clone(store),
            providers: providers.clone(),
            limiters: Arc::clone(limiters),
            pages: Arc::clone(&pages),
            events: events.clone(),
            logins: logins.clone(),
        });
        let connections = Arc::new(ConnectionsEndpoint {
            settings: Arc::clone(settings),
            store: Arc::clone(store),
            clock: clock.clone(),
            providers: providers.clone(),
            limiters: Arc::clone(limiters),
            pages: Arc::clone(&pages),
            events: events.clone(),
            logins: logins.clone(),
            cipher: cipher.clone(),
            token_cache: Arc::clone(&sessions.token_cache),
            sessions: sessions.clone(),
        });
        let mut router = self.callback_routes(&pages, &logins);
        for path in settings.page_paths(path::AUTHORIZE) {
            let endpoint = get(authorize::authorize).post(authorize::authorize);
            router = router.route(&path, endpoint.with_state(Arc::clone(&authorize)));
        }
        for path in settings.page_paths(path::CONSENT) {
            let endpoint = get(consent::reload).post(consent::decide);
            router = router.route(&path, endpoint.with_state(Arc::clone(&consent)));
        }
        for path in settings.page_paths(path::CONNECTIONS) {
            let endpoint = get(connections::show).post(connections::change);
            router = router.route(&path, endpoint.with_state(Arc::clone(&connections)));
        }
        router
    }

    /// Returns the providers' callbacks, and their return paths at the origin of the authorization endpoint.
    fn callback_routes(&self, pages: &Arc<Pages>, logins: &LoginRedirector) -> Router {
        let Self { settings, store, clock, providers, limiters, cipher, sessions, events, .. } =
            self;
        let endpoint = Arc::new(CallbackEndpoint {
            settings: Arc::clone(settings),
            store: Arc::clone(store),
            clock: clock.clone(),
            providers: providers.clone(),
            limiters: Arc::clone(limiters),
            pages: Arc::clone(pages),
            events: events.clone(),
            logins: logins.clone(),
            cipher: cipher.clone(),
            links: UpstreamLinks {
                store: Arc::clone(store),
                token_cache: Arc::clone(&sessions.token_cache),
                cipher: cipher.clone(),
            },
        });
        let callback = || get(callback::callback).with_state(Arc::clone(&endpoint));
        let forward = || get(callback::forward_callback).with_state(Arc::clone(&endpoint));
        let path_of =
            |upstream: &UpstreamProvider| upstream.provider.redirect_uri().path().to_owned();
        let paths: BTreeSet<_> = providers.iter().map(path_of).collect();
        let mut router = Router::new();
        for path in paths {
            let is_forwarded = providers
                .iter()
                .any(|upstream| upstream.is_other_origin && path_of(upstream) == path);
            router = if is_forwarded {
                let return_path = format!("{}{path}", settings.return_path());
                router.route(&path, forward()).route(&return_path, callback())
            } else {
                router.route(&path, callback())
            };
        }
        router
    }

    fn clients(&self) -> Clients {
        Clients::new(Arc::clone(&self.store), self.client_metadata.clone())
    }

    fn token_identifier(&self) -> TokenIdentifier {
        TokenIdentifier::new(Arc::clone(&self.settings), Arc::clone(&self.verifiers))
    }
}

/// Returns the CORS policy of endpoints that ignore cookies. The response is the same for each origin, so it needs no
/// `Vary` header.
fn cors() -> CorsLayer {
    const MAX_AGE: Duration = Duration::from_hours(24);
    CorsLayer::new()
        .allow_origin(AnyOrigin)
        .allow_methods([Method::GET, Method::POST, Method::OPTIONS])
        .allow_headers([
            AUTHORIZATION,
            CONTENT_TYPE,
            HeaderName::from_static("mcp-protocol-version"),
        ])
        .expose_headers([WWW_AUTHENTICATE, RETRY_AFTER])
        .max_age(MAX_AGE)
        .vary([])
}

/// Sets the status of preflight responses, which have no body, to 204: `CorsLayer` sends 200.
async fn empty_preflight(request: Request, next: Next) -> Response {
    let is_preflight = request.method() == Method::OPTIONS;
    let mut response = next.run(request).await;
    if is_preflight && response.status() == StatusCode::OK {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    response
}

/// Logs a panic of an endpoint, and returns the response. The message stays out of both: it may have data of a request.
fn respond_to_panic(_: Box<dyn Any + Send>) -> Response {
    tracing::error!("authorization endpoint panicked, please report this");
    OAuthError::server_error().to_response()
}
