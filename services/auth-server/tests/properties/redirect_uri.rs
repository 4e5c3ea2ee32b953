//! Properties of redirect URIs: a parsed URI leads to the displayed host, and covers no other destination.

use url::Url;
use vmcp_auth_server::{RedirectKind, RedirectUri};

/// Checks the properties of a registered and a requested redirect URI.
pub(crate) fn check(registered: &str, asked: &str) {
    for text in [registered, asked] {
        if let Ok(uri) = RedirectUri::parse(text) {
            leads_where_it_says(text, &uri);
        }
    }
    let (Ok(registered), Ok(asked)) = (RedirectUri::parse(registered), RedirectUri::parse(asked))
    else {
        return;
    };
    assert!(registered.matches(&registered));
    assert_eq!(registered.matches(&asked), asked.matches(&registered));
    if registered.matches(&asked) {
        let [one, two] = [&registered, &asked].map(|uri| Url::parse(uri.as_str()).unwrap());
        assert_eq!((one.scheme(), one.host_str()), (two.scheme(), two.host_str()));
        assert_eq!((one.path(), one.query()), (two.path(), two.query()));
        assert!(one.port() == two.port() || registered.kind() == RedirectKind::Loopback);
    }
}

fn leads_where_it_says(text: &str, uri: &RedirectUri) {
    assert_eq!(uri.as_str(), text);
    let url = Url::parse(text).unwrap();
    assert!(url.fragment().is_none() && url.username().is_empty() && url.password().is_none());
    match uri.kind() {
        RedirectKind::Web => {
            let host = url.host_str().unwrap();
            assert_eq!(url.scheme(), "https");
            assert!(uri.destination().to_ascii_lowercase().starts_with(&host.to_ascii_lowercase()));
        }
        RedirectKind::Loopback => {
            let host = url.host_str().unwrap();
            assert!(["localhost", "127.0.0.1", "[::1]"].contains(&host), "{text} leads to {host}");
        }
        RedirectKind::App => {
            let scheme = url.scheme();
            assert!(!["http", "https", "javascript", "data", "file", "blob"].contains(&scheme));
        }
    }
}
