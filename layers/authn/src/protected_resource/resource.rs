//! Protected resource metadata (RFC 9728).

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ALLOW, CONTENT_TYPE, HeaderValue,
};
use http::{Method, Response, StatusCode, Uri};
use vmcp_wire::write_json_string;

use crate::is_scope;

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Metadata of a protected resource, with its serialized document.
///
/// The document is served at the well-known path, and at that path followed by the resource's own path (RFC 9728
/// section 3.1), which is the URL in challenges. Pages of any origin may read it, since all of it is public.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtectedResource {
    url: Box<str>,
    suffix: Box<str>,
    scopes: Vec<Box<str>>,
    document: Bytes,
}

/// Relaxed rules for the resource's URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceOptions {
    /// Allows `http` everywhere, not on loopback only.
    pub allow_http: bool,
    /// Allows private addresses. Loopback is always allowed.
    pub allow_private_address: bool,
}

/// The error of invalid metadata.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    /// The URL is invalid: RFC 9728 section 1.2 requires `https`; on loopback and for Services of a Kubernetes cluster
    /// `http` is accepted too.
    #[error(
        "the resource must be an absolute https URL without user info and fragment (http on loopback and for \
         name.namespace.svc): set `resource`"
    )]
    Url,
    /// The host is a private address, which other clients may not reach.
    #[error(
        "the resource {host} is a private address: set `protectedResourceAllowPrivateIp` if clients can reach it"
    )]
    PrivateAddress {
        /// The host.
        host: Box<str>,
    },
    /// A scope is invalid (RFC 6749 section 3.3).
    #[error("invalid scope {scope:?}: use visible ASCII without quotes and backslashes")]
    Scope {
        /// The invalid scope.
        scope: Box<str>,
    },
}

impl ProtectedResource {
    /// Creates the metadata of `resource`, for which `issuer` issues tokens.
    ///
    /// Clients request the advertised `scopes`; without any, `openid`. `offline_access` is not advertised: refresh
    /// tokens do not concern the resource (MCP authorization, 2026-07-28).
    ///
    /// # Errors
    /// The URL or a scope is invalid.
    pub fn new(
        resource: &str,
        issuer: &str,
        scopes: &[impl AsRef<str>],
        options: ResourceOptions,
    ) -> Result<Self, ResourceError> {
        let uri = parse(resource, options)?;
        if let Some(bad) = scopes.iter().map(AsRef::as_ref).find(|scope| !is_scope(scope)) {
            return Err(ResourceError::Scope { scope: bad.into() });
        }
        let advertised =
            scopes.iter().map(AsRef::as_ref).filter(|scope| *scope != "offline_access");
        let mut scopes: Vec<Box<str>> = advertised.map(Box::from).collect();
        if scopes.is_empty() {
            scopes.push("openid".into());
        }
        let suffix = if uri.path() == "/" { "" } else { uri.path() };
        let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) else {
            return Err(ResourceError::Url);
        };
        let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
        let url = format!("{scheme}://{authority}{WELL_KNOWN}{suffix}{query}").into();
        let document = metadata_document(resource, issuer, &scopes);
        Ok(Self { url, suffix: suffix.into(), scopes, document })
    }

    /// Returns the absolute URL of the document.
    #[must_use]
    pub fn metadata_url(&self) -> &str {
        &self.url
    }

    /// Returns the advertised scopes.
    #[must_use]
    pub fn scopes(&self) -> &[Box<str>] {
        &self.scopes
    }

    /// Returns the JSON document.
    #[must_use]
    pub fn document(&self) -> &Bytes {
        &self.document
    }

    /// Returns `true` if the document is served at `path`.
    #[must_use]
    pub fn serves(&self, path: &str) -> bool {
        path.strip_prefix(WELL_KNOWN)
            .is_some_and(|rest| rest.is_empty() || rest == "/" || *rest == *self.suffix)
    }

    /// Returns the response to a request; `None` if the document is not served at `path`.
    #[must_use]
    pub fn response<R: From<Bytes>>(&self, method: &Method, path: &str) -> Option<Response<R>> {
        const METHODS: HeaderValue = HeaderValue::from_static("GET, OPTIONS");
        if !self.serves(path) {
            return None;
        }
        let (status, body) = match *method {
            Method::GET | Method::HEAD => (StatusCode::OK, self.document.clone()),
            Method::OPTIONS => (StatusCode::NO_CONTENT, Bytes::new()),
            _ => (StatusCode::METHOD_NOT_ALLOWED, Bytes::new()),
        };
        let mut response = Response::new(R::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        let allowed = "mcp-protocol-version, Content-Type, Authorization";
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(allowed));
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
        if status == StatusCode::OK {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(ALLOW, METHODS);
        }
        Some(response)
    }
}

fn parse(resource: &str, options: ResourceOptions) -> Result<Uri, ResourceError> {
    if resource.contains('#') {
        return Err(ResourceError::Url);
    }
    let uri: Uri = resource.parse().map_err(|_| ResourceError::Url)?;
    let authority = uri.authority().ok_or(ResourceError::Url)?;
    let host = authority.host();
    if host.is_empty() || authority.as_str().contains('@') {
        return Err(ResourceError::Url);
    }
    let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    let loopback =
        host.eq_ignore_ascii_case("localhost") || address.is_some_and(|ip| ip.is_loopback());
    match uri.scheme_str() {
        Some("https") => {}
        Some("http") if loopback || is_cluster_service(host) || options.allow_http => {}
        _ => return Err(ResourceError::Url),
    }
    let private = address.is_some_and(|ip| match ip {
        IpAddr::V4(ip) => ip.is_private() || ip.is_link_local() || ip.is_unspecified(),
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local() || ip.is_unspecified(),
    });
    if private && !options.allow_private_address {
        return Err(ResourceError::PrivateAddress { host: host.into() });
    }
    Ok(uri)
}

/// Returns `true` for the DNS name of a Kubernetes Service: `name.namespace.svc`, alone or before a cluster domain.
fn is_cluster_service(host: &str) -> bool {
    let mut labels = host.trim_end_matches('.').split('.');
    let has_name = labels.by_ref().take(2).filter(|label| !label.is_empty()).count() == 2;
    has_name && labels.next().is_some_and(|label| label.eq_ignore_ascii_case("svc"))
}

fn metadata_document(resource: &str, issuer: &str, scopes: &[Box<str>]) -> Bytes {
    let mut json = b"{\"resource\":".to_vec();
    write_json_string(resource, &mut json);
    json.extend_from_slice(b",\"authorization_servers\":[");
    write_json_string(issuer, &mut json);
    json.extend_from_slice(b"],\"bearer_methods_supported\":[\"header\"],\"scopes_supported\":[");
    for (index, scope) in scopes.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        write_json_string(scope, &mut json);
    }
    json.extend_from_slice(b"]}");
    json.into()
}

#[cfg(test)]
mod tests;
