//! Routes of the endpoints.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{MethodRouter, get, post};
use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, CONTENT_TYPE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, StatusCode};

use crate::auth_server::AppState;
use crate::discovery::path;
use crate::{
    Settings, authorize, callback, connections, consent, introspection, registration, revocation,
    token, userinfo,
};

type Server = State<Arc<AppState>>;

/// Creates the router of a server.
pub(crate) fn router(server: &Arc<AppState>) -> Router {
    let settings = &server.settings;
    let issuer = settings.issuer.path();
    let at = |path: &str| format!("{issuer}{path}");
    let mut router = Router::new()
        .route(&at(path::TOKEN), open(post(token::token)))
        .route(&at(path::REVOKE), open(post(revocation::revoke)))
        .route(&at(path::INTROSPECT), post(introspection::introspect))
        .route(&at(path::REGISTER), open(post(registration::register)))
        .route(&at(path::USERINFO), open(get(userinfo::userinfo).post(userinfo::userinfo)))
        .route(&at(path::JWKS), open(get(jwks)));
    for path in pages(settings, path::AUTHORIZE) {
        router = router.route(&path, get(authorize::authorize).post(authorize::authorize));
    }
    for path in pages(settings, path::CONSENT) {
        router = router.route(&path, get(consent::reload).post(consent::decide));
    }
    for path in pages(settings, path::CONNECTIONS) {
        router = router.route(&path, get(connections::show).post(connections::change));
    }
    for path in documents(settings, path::OAUTH) {
        router = router.route(&path, open(get(oauth)));
    }
    for path in documents(settings, path::OPENID) {
        router = router.route(&path, open(get(openid)));
    }
    let callbacks: BTreeSet<&str> =
        server.upstreams.iter().map(|upstream| upstream.provider.redirect_uri().path()).collect();
    for path in callbacks {
        let mut upstreams = server.upstreams.iter();
        if upstreams.any(|upstream| {
            upstream.is_other_origin && upstream.provider.redirect_uri().path() == path
        }) {
            let back = format!("{}{path}", settings.return_path());
            router = router.route(path, get(callback::forward_callback));
            router = router.route(&back, get(callback::callback));
        } else {
            router = router.route(path, get(callback::callback));
        }
    }
    router.with_state(Arc::clone(server))
}

/// Returns all paths except the providers' callbacks.
pub(crate) fn fixed_paths(settings: &Settings) -> Vec<String> {
    let fixed =
        [path::TOKEN, path::REVOKE, path::INTROSPECT, path::REGISTER, path::USERINFO, path::JWKS];
    let issuer = settings.issuer.path();
    let mut paths: Vec<String> = fixed.iter().map(|path| format!("{issuer}{path}")).collect();
    for page in [path::AUTHORIZE, path::CONSENT, path::CONNECTIONS] {
        paths.extend(pages(settings, page));
    }
    for document in [path::OAUTH, path::OPENID] {
        paths.extend(documents(settings, document));
    }
    paths
}

/// Returns the paths of a page: below the issuer's address, and below that of the authorization endpoint.
fn pages(settings: &Settings, page: &str) -> BTreeSet<String> {
    [settings.issuer.path(), settings.authorization_issuer().path()]
        .map(|base| format!("{base}{page}"))
        .into()
}

/// Returns the paths of a discovery document (RFC 8414 section 3.1, OpenID Connect Discovery 1.0 section 4.1): before the
/// issuer's path, after it, and at the root for clients that do not insert the path.
fn documents(settings: &Settings, document: &str) -> BTreeSet<String> {
    let issuer = settings.issuer.path();
    [format!("{document}{issuer}"), format!("{issuer}{document}"), document.to_owned()].into()
}

async fn jwks(State(server): Server) -> Response {
    public(server.settings.keys.jwks().clone())
}

async fn oauth(State(server): Server) -> Response {
    public(server.documents.oauth.clone())
}

async fn openid(State(server): Server) -> Response {
    public(server.documents.openid.clone())
}

/// Returns a document with a public cache lifetime, short enough that clients see a new key before it signs.
fn public(document: Bytes) -> Response {
    let mut response = Response::new(Body::from(document));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=600"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Allows browsers to call an endpoint from any site. Such an endpoint ignores cookies.
fn open(endpoint: MethodRouter<Arc<AppState>>) -> MethodRouter<Arc<AppState>> {
    endpoint.options(async || StatusCode::NO_CONTENT).layer(axum::middleware::map_response(
        async |mut response: Response| {
            let headers = response.headers_mut();
            for (name, value) in [
                (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
                (ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, OPTIONS"),
                (ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, mcp-protocol-version"),
                (ACCESS_CONTROL_EXPOSE_HEADERS, "www-authenticate, retry-after"),
                (ACCESS_CONTROL_MAX_AGE, "86400"),
            ] {
                headers.insert(name, HeaderValue::from_static(value));
            }
            response
        },
    ))
}
