//! Origin of a request.

use std::net::{IpAddr, SocketAddr};

use http::header::USER_AGENT;
use http::{HeaderMap, HeaderName};

use crate::{BoundedText, EventSource};

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Returns the origin of a request behind `trusted_proxies` proxies.
pub(crate) fn from_request<B>(request: &http::Request<B>, trusted_proxies: usize) -> EventSource {
    let headers = request.headers();
    let peer_address = peer_address(request).map(|peer_address| peer_address.ip().to_canonical());
    let header =
        |name| headers.get(name).and_then(|value| value.to_str().ok()).map(BoundedText::from);
    EventSource::Network {
        address: forwarded_for(headers, trusted_proxies).or(peer_address),
        user_agent: header(USER_AGENT),
        request_id: header(REQUEST_ID),
    }
}

/// Returns the address of the client's connection: a `SocketAddr` in the extensions, or, with the feature `axum`, the
/// `ConnectInfo` that `into_make_service_with_connect_info` inserts.
fn peer_address<B>(request: &http::Request<B>) -> Option<SocketAddr> {
    let peer_address = request.extensions().get::<SocketAddr>().copied();
    #[cfg(feature = "axum")]
    let peer_address = peer_address.or_else(|| {
        let info = request.extensions().get::<axum::extract::ConnectInfo<SocketAddr>>();
        info.map(|info| info.0)
    });
    peer_address
}

/// Returns the client address that the outermost trusted proxy appended to `X-Forwarded-For`. Addresses to the left of
/// it are set by the client and not trustworthy. `None` without a trusted proxy, or without that entry.
#[must_use]
pub fn forwarded_for(headers: &HeaderMap, trusted_proxies: usize) -> Option<IpAddr> {
    let index = trusted_proxies.checked_sub(1)?;
    let values = headers.get_all(FORWARDED_FOR).iter().rev();
    let entries = values.filter_map(|value| value.to_str().ok());
    entries
        .flat_map(|value| value.rsplit(','))
        .nth(index)
        .and_then(|entry| parse_address(entry.trim()))
}

/// Parses an address as proxies write it: bare, in brackets, or with a port.
fn parse_address(entry: &str) -> Option<IpAddr> {
    let bare = entry.strip_prefix('[').and_then(|entry| entry.strip_suffix(']')).unwrap_or(entry);
    let address = bare.parse().or_else(|_| entry.parse().map(|address: SocketAddr| address.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn source(forwarded: &[&str], trusted: usize) -> String {
        let mut request = Request::builder();
        for value in forwarded {
            request = request.header(FORWARDED_FOR, *value);
        }
        let mut request = request.body(()).unwrap();
        request.extensions_mut().insert(SocketAddr::from(([10, 0, 0, 1], 4711)));
        match from_request(&request, trusted) {
            EventSource::Network { address: Some(address), .. } => address.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[cfg(feature = "axum")]
    #[test]
    fn reads_connect_info_of_axum() {
        let mut request = Request::new(());
        let address = SocketAddr::from(([10, 0, 0, 7], 4711));
        request.extensions_mut().insert(axum::extract::ConnectInfo(address));
        let EventSource::Network { address, .. } = from_request(&request, 0) else { panic!() };
        assert_eq!(address, Some([10, 0, 0, 7].into()));
    }

    #[test]
    fn ignores_forwarded_header_without_trusted_proxies() {
        assert_eq!(source(&["1.2.3.4"], 0), "10.0.0.1");
        assert_eq!(source(&[], 1), "10.0.0.1");
        assert_eq!(source(&["nonsense"], 1), "10.0.0.1");
    }

    #[test]
    fn uses_entries_of_trusted_proxies() {
        assert_eq!(source(&["6.6.6.6, 1.2.3.4"], 1), "1.2.3.4");
        assert_eq!(source(&["6.6.6.6, 1.2.3.4", "10.0.0.9"], 2), "1.2.3.4");
        assert_eq!(source(&["1.2.3.4:99"], 1), "1.2.3.4");
        assert_eq!(source(&["[2001:db8::1]:99"], 1), "2001:db8::1");
        assert_eq!(source(&["[2001:db8::1]"], 1), "2001:db8::1");
        assert_eq!(source(&["::ffff:1.2.3.4"], 1), "1.2.3.4");
        assert_eq!(source(&["1.2.3.4"], 2), "10.0.0.1");
    }
}
