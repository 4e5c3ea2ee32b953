//! Encoding of a backend session in the record of a client's session.

use aws_lc_rs::digest::{SHA256, digest};
use http::HeaderValue;
use vmcp_core::{Caller, STATEFUL};

use crate::backend::BackendHandle;
use crate::backend::error::BackendError;
use crate::backend::handshake::{BackendSession, BackendSessionState};

const FORMAT: u8 = 1;

/// Maximum length of a backend's session id in a record.
const MAX_ID_BYTES: usize = 4096;

/// Length of the fingerprint of a backend's URL.
const FINGERPRINT_LENGTH: usize = 16;

/// Encodes a session of `backend`.
///
/// # Errors
/// Fails if the backend's session id is longer than 4,096 bytes.
pub(crate) fn encode(
    backend: &BackendHandle,
    session: &BackendSession,
) -> Result<Vec<u8>, BackendError> {
    let BackendSessionState { session, revision, logs } = session.state();
    let revision = STATEFUL.iter().position(|known| known.as_bytes() == revision.as_bytes());
    let revision = revision.and_then(|index| u8::try_from(index).ok());
    let revision = revision.expect("the revision of a backend session is one of STATEFUL");
    let id = session.map_or(&b""[..], HeaderValue::as_bytes);
    if id.len() > MAX_ID_BYTES {
        return Err(BackendError::Malformed("a session id of more than 4096 bytes"));
    }
    let mut value = vec![FORMAT, revision, u8::from(logs), u8::from(session.is_some())];
    value.extend_from_slice(&fingerprint(backend));
    value.extend_from_slice(id);
    Ok(value)
}

/// Decodes a session of `backend` for its owner. `None` if its format is unknown, or the URL of the backend has changed.
pub(crate) fn decode(
    backend: &BackendHandle,
    value: &[u8],
    caller: &Caller,
) -> Option<BackendSession> {
    let (&[format, revision, logs, has_id], value) = value.split_first_chunk()?;
    let (fingerprint_of_url, id) = value.split_at_checked(FINGERPRINT_LENGTH)?;
    let is_known = format == FORMAT && logs <= 1 && has_id <= 1;
    if !is_known || fingerprint_of_url != fingerprint(backend) {
        return None;
    }
    let revision = HeaderValue::from_static(STATEFUL.get(usize::from(revision))?);
    let session = match has_id {
        0 if !id.is_empty() => return None,
        0 => None,
        _ => Some(HeaderValue::from_bytes(id).ok()?),
    };
    let state =
        BackendSessionState { session: session.as_ref(), revision: &revision, logs: logs == 1 };
    Some(BackendSession::from_state(&state, caller.clone()))
}

fn fingerprint(backend: &BackendHandle) -> [u8; FINGERPRINT_LENGTH] {
    let mut fingerprint = [0; FINGERPRINT_LENGTH];
    let digest = digest(&SHA256, backend.uri.to_string().as_bytes());
    fingerprint.copy_from_slice(&digest.as_ref()[..FINGERPRINT_LENGTH]);
    fingerprint
}
