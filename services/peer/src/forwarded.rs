//! Facts that a replica sends with a request that it forwards.

use std::net::SocketAddr;

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};

use crate::handle::ReplicaHandle;

/// Header with the address of the client.
const CLIENT_ADDRESS: HeaderName = HeaderName::from_static("vmcp-client-address");

/// Headers of a connection, which do not go to another one (RFC 9110, 7.6.1).
const CONNECTION_HEADERS: [HeaderName; 9] = [
    CONNECTION,
    CONTENT_LENGTH,
    EXPECT,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Mark of a request that another replica forwarded, in the request's extensions. It is never forwarded again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forwarded {
    /// Replica that the client sent the request to.
    pub by: ReplicaHandle,
    /// Address of the client, as that replica sees it.
    pub client: Option<SocketAddr>,
}

impl Forwarded {
    /// Removes the address from the headers of a received request, and returns the mark.
    pub(crate) fn take(headers: &mut HeaderMap, by: ReplicaHandle) -> Self {
        let client = headers.remove(CLIENT_ADDRESS);
        let client = client.and_then(|client| client.to_str().ok()?.parse().ok());
        Self { by, client }
    }
}

/// Prepares the headers of a request to another replica.
pub(crate) fn prepare(headers: &mut HeaderMap, client: Option<SocketAddr>) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in CONNECTION_HEADERS.iter().chain(&named).chain([&CLIENT_ADDRESS]) {
        headers.remove(name);
    }
    if !headers.contains_key(HOST) {
        headers.insert(HOST, HeaderValue::from_static("localhost"));
    }
    if let Some(client) = client
        && let Ok(client) = HeaderValue::from_str(&client.to_string())
    {
        headers.insert(CLIENT_ADDRESS, client);
    }
}
