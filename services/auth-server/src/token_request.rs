//! Parts shared by the token, revocation and introspection endpoints.

use http::HeaderMap;

use crate::client_credentials::Credentials;
use crate::error::{ErrorCode, OAuthError};
use crate::event::{Event, EventKind};
use crate::event_reporter::RequestEvents;
use crate::params::Params;

/// Parses the parameters of a form, and rejects repeated ones.
pub(crate) fn parse_form(text: &[u8]) -> Result<Params<'_>, OAuthError> {
    let params = Params::parse(text)
        .map_err(|_| OAuthError::invalid_request("too many parameters: send at most 64"))?;
    if params.is_repeated("resource") {
        return Err(OAuthError::new(
            ErrorCode::InvalidTarget,
            "resource is repeated: send it once",
        ));
    }
    if params.has_repeated() {
        return Err(OAuthError::invalid_request(
            "a parameter is repeated: send each parameter once",
        ));
    }
    Ok(params)
}

/// Reports the rejection of a client's request.
pub(crate) fn report_rejection(
    events: &RequestEvents,
    headers: &HeaderMap,
    params: &Params<'_>,
    error: &OAuthError,
) {
    let client = Credentials::from_request(headers, params).ok();
    let client = client.as_ref().map(|credentials| credentials.id.as_str());
    events.report(Event::new(client, EventKind::TokenRejected { rejection: error.into() }));
}
