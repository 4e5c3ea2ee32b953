//! Parsers for values of options.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroUsize;
use std::path::PathBuf;

use vmcp_config::Duration;

use vmcp_seal::{SealKeyError, SealKeyFiles};
use vmcp_server::serve::{AdminToken, AdminTokenError};

/// Maximum number of threads for requests.
const MAX_THREADS: usize = 1024;

/// Parses the path of a seal key, or of a directory of keys, which have to be readable.
pub(super) fn seal_key(path: &str) -> Result<PathBuf, SealKeyError> {
    let path = PathBuf::from(path);
    SealKeyFiles::new(vec![path.clone()]).read()?;
    Ok(path)
}

/// Parses the path of a directory, which has to exist.
pub(super) fn directory(path: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(path);
    if path.is_dir() { Ok(path) } else { Err("must be a directory that exists".to_owned()) }
}

pub(super) fn admin_token(path: &str) -> Result<AdminToken, AdminTokenError> {
    AdminToken::read(path.as_ref())
}

/// Parses an address to listen on. Host names other than `localhost` are rejected, since their addresses may change.
pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    let allowed = "must be an IP address, such as 127.0.0.1 or ::1, 0.0.0.0 for all of IPv4 or :: for all; or localhost";
    text.parse().map_err(|_| allowed.to_owned())
}

/// Parses a positive duration.
pub(super) fn positive(text: &str) -> Result<Duration, String> {
    if text.starts_with('-') || text == "0" {
        return Err("must be more than 0, such as 30m".to_owned());
    }
    let duration: Duration = text.parse().map_err(|error| format!("{error}"))?;
    if duration.is_zero() { positive("0") } else { Ok(duration) }
}

pub(super) fn positive_number(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "must be a whole number of at least 1".to_owned())
}

/// Parses a number of threads.
pub(super) fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse().ok().filter(|number: &NonZeroUsize| number.get() <= MAX_THREADS);
    number.ok_or_else(|| format!("must be a number from 1 to {MAX_THREADS}"))
}

/// Parses a resource attribute: `KEY=VALUE`.
pub(super) fn attribute(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = pair.ok_or("must be KEY=VALUE, such as deployment.environment=test")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Validates a `Host` header value of `--allow-host`. A value that no request can carry would never match.
pub(super) fn host_name(text: &str) -> Result<String, String> {
    if is_host(text) {
        return Ok(text.to_owned());
    }
    Err("must be a host, such as tools.example.com, or tools.example.com:8443 for that port alone"
        .to_owned())
}

/// Validates an `Origin` header value (RFC 6454 section 7), or `*` for any origin.
pub(super) fn origin(text: &str) -> Result<String, String> {
    let known = ["*", "null"].contains(&text);
    if known
        || text.split_once("://").is_some_and(|(scheme, host)| is_scheme(scheme) && is_host(host))
    {
        return Ok(text.to_owned());
    }
    Err("must be a scheme and a host, such as https://app.example.com, without anything behind it; or * for any"
        .to_owned())
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Splits a host from its port, if it has one.
fn is_host(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_local_listen_addresses() {
        for (text, expected) in [("localhost", "127.0.0.1"), ("0.0.0.0", "0.0.0.0"), ("::1", "::1")]
        {
            assert_eq!(address(text).map(|address| address.to_string()), Ok(expected.to_owned()));
        }
        for text in ["", "tools.example.com", "127.0.0.1:80", "[::1]"] {
            assert!(address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn accepts_only_valid_hosts_and_origins() {
        for text in ["a", "tools.example.com", "tools.example.com:8443", "[::1]:80", "10.0.0.7"] {
            assert!(host_name(text).is_ok(), "{text}");
            assert!(origin(&format!("https://{text}")).is_ok(), "{text}");
        }
        for text in ["*", "null", "vscode-webview://1a2b"] {
            assert!(origin(text).is_ok(), "{text}");
        }
        for text in ["", "https://a", "a/", "a/b", "me@a", "a b", "*"] {
            assert!(host_name(text).is_err(), "{text}");
        }
        for text in ["", "a", "://a", "https://", "https://a/", "https://a?b", "https://me@a"] {
            assert!(origin(text).is_err(), "{text}");
        }
    }
}
