//! Key set at `jwks_uri` (RFC 7517 section 5).

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use crate::response::public_json;
use crate::settings::Settings;

/// Handles `GET` of the key set.
pub(crate) async fn jwks(State(settings): State<Arc<Settings>>) -> Response {
    public_json(settings.keys.jwks().clone())
}
