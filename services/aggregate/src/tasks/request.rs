//! Requests of the gateway about tasks.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use vmcp_decode::header_value;

use crate::backend::BackendHandle;
use crate::backend::handshake::{self, ClientInfo};
use crate::backend::request::NAME;
use crate::catalog::define_literal;

/// Maximum length of a backend's task id, in bytes: it is repeated in a header.
const MAX_OWN_ID: usize = 4096;

/// Builds a request of the gateway about a task, with its request id; `None` if the task's id is not a valid header value.
pub(crate) fn about(
    backend: &BackendHandle,
    method: &'static str,
    id: &str,
    client_info: ClientInfo<'_>,
) -> Option<(Request<Full<Bytes>>, String)> {
    let name = header_value::encode(id).filter(|_| id.len() <= MAX_OWN_ID)?;
    let literal = String::from_utf8_lossy(&define_literal(id)).into_owned();
    let (mut request, serial) =
        handshake::request(backend, method, &format!("\"taskId\":{literal},"), client_info);
    request.headers_mut().insert(NAME, name);
    Some((request, serial))
}
