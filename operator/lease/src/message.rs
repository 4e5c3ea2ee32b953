//! Messages about failed requests.

use std::error::Error;
use std::fmt::Write as _;

/// Returns the message of a failed request: that of the API server with its code, or the error with its causes.
#[must_use]
pub fn message(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return format!("{} ({})", status.message, status.code);
    }
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        // Some errors have the text of their cause in their own.
        if !message.contains(&text) {
            _ = write!(message, ": {text}");
        }
        cause = error.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn response_of_api_server_is_its_message() {
        let status =
            Status { code: 403, message: "leases is forbidden".into(), ..Status::default() };
        assert_eq!(message(&kube::Error::Api(Box::new(status))), "leases is forbidden (403)");
    }

    #[test]
    fn other_errors_name_their_causes() {
        let refused = std::io::Error::other("connection refused");
        let error = kube::Error::Service(Box::new(refused));
        let text = message(&error);
        assert!(text.ends_with("connection refused"), "{text}");
        assert_eq!(text.matches("connection refused").count(), 1, "{text}");
    }
}
