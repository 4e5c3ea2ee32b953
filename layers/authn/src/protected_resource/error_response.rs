//! The body of error responses.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use vmcp_wire::write_json_string;

/// Returns an error response whose JSON body contains `error` and `error_description` (RFC 6749 section 5.2), with
/// `Cache-Control: no-store`. The caller adds the challenge header.
#[must_use]
pub fn error_response<R: From<Bytes>>(
    status: StatusCode,
    error: &str,
    description: &str,
) -> Response<R> {
    let mut json = b"{\"error\":".to_vec();
    write_json_string(error, &mut json);
    json.extend_from_slice(b",\"error_description\":");
    write_json_string(description, &mut json);
    json.push(b'}');
    let mut response = Response::new(R::from(json.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn description_is_escaped_in_json() {
        let response: Response<Bytes> = error_response(StatusCode::UNAUTHORIZED, "e", "a \"b\"\n");
        assert_eq!(response.body(), r#"{"error":"e","error_description":"a \"b\"\n"}"#);
        assert_eq!(response.status(), 401);
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
    }
}
