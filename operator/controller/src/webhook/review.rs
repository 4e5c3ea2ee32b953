//! AdmissionReview (`admission.k8s.io/v1`): requests that are read, and responses.

use serde::Deserialize;
use serde_json::{Value, json};
use vmcp_api::{GROUP, VERSION};

use crate::key::Kind;

const REVIEW_VERSION: &str = "admission.k8s.io/v1";

/// Maximum length of a message, in bytes. The API server repeats it to the client.
const MAX_MESSAGE: usize = 8 * 1024;

/// Maximum number of warnings; the API server shows 4 KiB of them.
const MAX_WARNINGS: usize = 16;

/// Maximum length of a uid that is repeated in the response.
const MAX_UID: usize = 256;

/// Request of the API server.
#[derive(Debug)]
pub(super) struct Review {
    pub(super) uid: String,
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) operation: String,
    pub(super) object: Value,
    pub(super) old_object: Value,
}

/// Outcome of a review.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Outcome {
    /// The object may be stored.
    Allowed {
        /// Settings without effect, and deprecated ones.
        warnings: Vec<String>,
    },
    /// The object is refused.
    Denied {
        /// Mistakes, each with its path.
        errors: Vec<String>,
    },
    /// The write changes nothing that is validated.
    Skipped,
}

/// Reason for which a request is not a review.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct ReviewError(pub(super) String);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<RawRequest>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRequest {
    uid: String,
    kind: GroupVersionKind,
    operation: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    object: Value,
    #[serde(default)]
    old_object: Value,
}

#[derive(Deserialize)]
struct GroupVersionKind {
    group: String,
    version: String,
    kind: String,
}

// === impl Review ===

impl Review {
    /// Reads the body of a request. Errors never repeat a value of it.
    pub(super) fn parse(body: &[u8]) -> Result<Self, ReviewError> {
        let document: Document = serde_json::from_slice(body).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            let place = format!("line {line}, column {column}");
            ReviewError(format!("the body is not an AdmissionReview in JSON: {place}"))
        })?;
        let Document { api_version, kind, request } = document;
        if api_version != REVIEW_VERSION || kind != "AdmissionReview" {
            let expected =
                format!("the body is not a review: allowed: {REVIEW_VERSION} AdmissionReview");
            return Err(ReviewError(expected));
        }
        let request = request.ok_or_else(|| ReviewError("the review has no request".to_owned()))?;
        let RawRequest { uid, kind, operation, namespace, name, object, old_object } = request;
        let GroupVersionKind { group, version, kind } = kind;
        let kind = match kind.as_str() {
            "VirtualMCPServer" => Some(Kind::VirtualMCPServer),
            "MCPExternalAuthConfig" => Some(Kind::MCPExternalAuthConfig),
            _ => None,
        };
        let kind = kind.filter(|_| group == GROUP && version == VERSION).ok_or_else(|| {
            ReviewError(format!(
                "the webhook validates VirtualMCPServer and MCPExternalAuthConfig of {GROUP}/{VERSION} alone"
            ))
        })?;
        if uid.is_empty() || uid.len() > MAX_UID {
            return Err(ReviewError(format!("the uid has to have 1 to {MAX_UID} bytes")));
        }
        Ok(Self { uid, kind, namespace, name, operation, object, old_object })
    }
}

/// Returns the response that permits a request, with warnings.
pub(super) fn allowed(uid: &str, warnings: &[String]) -> Value {
    let warnings = &warnings[..warnings.len().min(MAX_WARNINGS)];
    review(&json!({"uid": uid, "allowed": true, "warnings": warnings}))
}

/// Returns the response to a review.
pub(super) fn response(uid: &str, outcome: Outcome) -> Value {
    match outcome {
        Outcome::Allowed { warnings } => allowed(uid, &warnings),
        Outcome::Skipped => allowed(uid, &[]),
        Outcome::Denied { errors } => {
            let status = json!({
                "status": "Failure", "code": 403, "reason": "Forbidden", "message": message(&errors),
            });
            review(&json!({"uid": uid, "allowed": false, "status": status}))
        }
    }
}

fn review(response: &Value) -> Value {
    json!({"apiVersion": REVIEW_VERSION, "kind": "AdmissionReview", "response": response})
}

/// Joins errors, as many as there is space for. The last one counts the others.
fn message(errors: &[String]) -> String {
    let mut text = String::new();
    for (index, error) in errors.iter().enumerate() {
        let separator = if index == 0 { "" } else { "; " };
        if text.len() + separator.len() + error.len() > MAX_MESSAGE {
            if index == 0 {
                let end = error.floor_char_boundary(MAX_MESSAGE);
                text.push_str(&error[..end]);
                text.push('…');
            }
            let more = errors.len() - index.max(1);
            if more > 0 {
                text.extend(["; and ", &more.to_string(), " more"]);
            }
            break;
        }
        text.extend([separator, error]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(change: impl FnOnce(&mut Value)) -> Vec<u8> {
        let mut document = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "u", "operation": "CREATE", "object": {},
                "kind": {"group": "vmcp.dev", "version": "v1beta1", "kind": "VirtualMCPServer"},
            },
        });
        change(&mut document);
        document.to_string().into_bytes()
    }

    #[test]
    fn reads_reviews_of_its_kinds_alone() {
        assert!(Review::parse(&document(|_| {})).is_ok());
        let changes: [(&str, &str, &str); 5] = [
            ("/apiVersion", "admission.k8s.io/v1beta1", "admission.k8s.io/v1 AdmissionReview"),
            ("/kind", "Status", "admission.k8s.io/v1 AdmissionReview"),
            ("/request/kind/version", "v2", "of vmcp.dev/v1beta1 alone"),
            ("/request/kind/kind", "MCPGroup", "of vmcp.dev/v1beta1 alone"),
            ("/request/uid", "", "the uid"),
        ];
        for (path, value, expected) in changes {
            let body = document(|document| *document.pointer_mut(path).unwrap() = value.into());
            let ReviewError(error) = Review::parse(&body).unwrap_err();
            assert!(error.contains(expected), "{path}: {error}");
        }
        let ReviewError(error) = Review::parse(b"{\"kind\": secret}").unwrap_err();
        assert!(error.ends_with("line 1, column 10"), "{error}");
    }

    #[test]
    fn message_has_errors_within_bound() {
        let errors = |count: usize, length: usize| vec!["x".repeat(length); count];
        assert_eq!(message(&errors(2, 1)), "x; x");
        let long = message(&errors(100, 1_000));
        assert!(long.len() <= MAX_MESSAGE + 20 && long.ends_with("; and 92 more"), "{long}");
        let longest = message(&errors(2, 10_000));
        assert!(longest.ends_with("x…; and 1 more"), "{}", longest.len());
    }

    #[test]
    fn denial_has_status_of_failure() {
        let denied = response("u", Outcome::Denied { errors: vec!["spec.a: b".to_owned()] });
        assert_eq!(denied["response"]["allowed"], false);
        assert_eq!(denied["response"]["status"]["code"], 403);
        assert_eq!(denied["response"]["status"]["message"], "spec.a: b");
    }
}
