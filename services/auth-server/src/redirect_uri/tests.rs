//! Tests for parsing and matching of redirect URIs.

use proptest::prelude::*;

use super::*;

fn uri(text: &str) -> RedirectUri {
    RedirectUri::parse(text).unwrap_or_else(|cause| panic!("{text}: {cause}"))
}

#[test]
fn accepts_https_loopback_and_private_use_uris() {
    for (text, kind, place) in [
        ("https://app.example/cb?x=1", RedirectKind::Web, "app.example"),
        ("https://app.example:8443/cb", RedirectKind::Web, "app.example:8443"),
        ("https://[2001:db8::1]:8443/cb", RedirectKind::Web, "[2001:db8::1]:8443"),
        ("http://localhost/cb", RedirectKind::Loopback, "localhost"),
        ("http://127.0.0.1:51234/cb", RedirectKind::Loopback, "127.0.0.1"),
        ("http://[::1]:51234/cb", RedirectKind::Loopback, "[::1]"),
        ("com.example.app:/cb", RedirectKind::App, "com.example.app"),
        ("cursor://anysphere.cursor-mcp/oauth/callback", RedirectKind::App, "cursor"),
    ] {
        assert_eq!((uri(text).kind(), uri(text).destination()), (kind, place), "{text}");
    }
}

#[test]
fn rejects_ambiguous_redirect_uris() {
    use RedirectUriError::{Fragment, Http, Malformed, Scheme, UserInfo};
    for (text, cause) in [
        ("", Malformed),
        ("/cb", Malformed),
        ("https:app.example/cb", Malformed),
        ("https:///cb", Malformed),
        ("https://%65vil.example/cb", Malformed),
        ("https://2130706433/cb", Malformed),
        ("https://app.example/c b", Malformed),
        ("https://app.example/\r\nSet-Cookie:a", Malformed),
        ("https://app.example\\@evil.example/", Malformed),
        ("https://app.example/cb#x", Fragment),
        ("https://app.example/cb#", Fragment),
        ("https://user@app.example/cb", UserInfo),
        ("https://@app.example/cb", UserInfo),
        ("http://127.0.0.1@evil.example/cb", UserInfo),
        ("http://app.example/cb", Http),
        ("http://localhost.evil.example/cb", Http),
        ("http://127.1/cb", Http),
        ("http://0x7f000001/cb", Http),
        ("http://2130706433/cb", Http),
        ("http://127.0.0.2/cb", Http),
        ("http://0.0.0.0/cb", Http),
        ("http://[::ffff:127.0.0.1]/cb", Http),
        ("http://localhost:0/cb", Http),
        ("http://localhost:/cb", Http),
        ("javascript:alert(1)", Scheme),
        ("data:text/html,x", Scheme),
        ("file:///etc/passwd", Scheme),
        ("ftp://app.example/", Scheme),
        ("blob:https://app.example/x", Scheme),
        ("about:blank", Scheme),
    ] {
        assert_eq!(RedirectUri::parse(text), Err(cause), "{text}");
    }
    let long = format!("https://app.example/{}", "a".repeat(2029));
    assert_eq!(RedirectUri::parse(&long), Err(Malformed));
    assert!(RedirectUri::parse(&long[..2048]).is_ok());
}

#[test]
fn rejects_links_that_install_servers() {
    for text in [
        "vscode:mcp/install?%7B%22name%22%3A%22x%22%7D",
        "vscode:mcp/by-name/x",
        "vscode:/mcp/install",
        "vscode://mcp/x",
        "vscode:MCP/x",
        "vscode:%6dcp/x",
        "vscode:./mcp/x",
        "vscode:x/../mcp/x",
        "vscode-insiders:mcp/install",
        "cursor://anysphere.cursor-deeplink/mcp/install?name=x&config=y",
        "cursor://anysphere.cursor-deeplink//mcp//install",
        "cursor://anysphere.cursor-deeplink/mcp%2finstall",
        "cursor://anysphere.cursor-deeplink/x/%2e%2e/mcp/install",
        "com.example.app:/mcp/install",
        "https://insiders.vscode.dev/redirect/mcp/install?name=x",
        "https://vscode.dev/redirect?url=vscode%3Amcp%2Finstall%3Fx",
        "https://vscode.dev/redirect?url=vscode%253Amcp%252Finstall",
        "https://cursor.com/mcp/install",
    ] {
        assert_eq!(RedirectUri::parse(text), Err(RedirectUriError::DeepLink), "{text}");
    }
    for text in [
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "cursor://anysphere.cursor-retrieval/oauth/user-mcp/callback",
        "vscode://vscode.github-authentication/did-authenticate",
        "https://vscode.dev/redirect",
        "https://claude.ai/api/mcp/auth_callback",
        "http://127.0.0.1/mcp/callback",
        "https://app.example/mcp/installed",
    ] {
        uri(text);
    }
}

#[test]
fn only_port_of_loopback_uri_may_vary() {
    for (registered, asked, covered) in [
        ("http://127.0.0.1/cb", "http://127.0.0.1:51234/cb", true),
        ("http://127.0.0.1:1/cb", "http://127.0.0.1:2/cb", true),
        ("http://localhost:1/cb?a=1", "http://LOCALHOST:2/cb?a=1", true),
        ("http://[::1]/cb", "http://[::1]:2/cb", true),
        ("http://localhost/cb", "http://127.0.0.1/cb", false),
        ("http://localhost/cb", "http://localhost/cb?", false),
        ("http://localhost/cb", "http://localhost/cb/", false),
        ("http://localhost/cb", "http://localhost/cb/../x", false),
        ("http://localhost/cb?a=1&b=2", "http://localhost/cb?b=2&a=1", false),
        ("https://app.example/cb", "https://app.example:8443/cb", false),
        ("https://app.example/cb", "https://APP.example/cb", false),
        ("https://app.example/cb", "https://app.example/cb/../cb", false),
        ("com.example.app:/cb", "com.example.app:/cb2", false),
    ] {
        assert_eq!(uri(registered).matches(&uri(asked)), covered, "{registered} {asked}");
    }
}

#[test]
fn appends_parameters_to_existing_query() {
    for (text, with) in [
        ("https://a.example/cb", "https://a.example/cb?code=1%262&state=x+y"),
        ("https://a.example/cb?", "https://a.example/cb?code=1%262&state=x+y"),
        ("https://a.example/cb?a=1", "https://a.example/cb?a=1&code=1%262&state=x+y"),
        ("com.example.app:/cb", "com.example.app:/cb?code=1%262&state=x+y"),
    ] {
        assert_eq!(uri(text).with_query(&[("code", "1&2"), ("state", "x y"), ("none", "")]), with);
    }
}

proptest! {
    #[test]
    fn parses_or_rejects_any_text(text in "\\PC{0,60}") {
        let _ = RedirectUri::parse(&text);
    }

    /// A covered URI has the same host and path as the registered one, according to a URL parser.
    #[test]
    fn matching_uris_share_host_and_path(
        one in "http://(localhost|127.0.0.1|\\[::1\\])(:[0-9]{1,5})?(/[a-z%./]{0,6})?(\\?[a-z=&]{0,4})?",
        two in "http://(localhost|127.0.0.1|\\[::1\\])(:[0-9]{1,5})?(/[a-z%./]{0,6})?(\\?[a-z=&]{0,4})?",
    ) {
        let (Ok(one), Ok(two)) = (RedirectUri::parse(&one), RedirectUri::parse(&two)) else { return Ok(()) };
        prop_assert_eq!(one.matches(&two), two.matches(&one));
        if one.matches(&two) {
            let [one, two] = [&one, &two].map(|uri| Url::parse(uri.as_str()).unwrap());
            prop_assert_eq!(one.host_str(), two.host_str());
            prop_assert_eq!((one.path(), one.query()), (two.path(), two.query()));
        }
    }

    #[test]
    fn response_parameters_keep_host_and_path(value in "\\PC{0,40}") {
        let target = Url::parse(&uri("https://a.example/cb?a=1").with_query(&[("state", &value)])).unwrap();
        prop_assert_eq!((target.host_str(), target.path()), (Some("a.example"), "/cb"));
        let state = target.query_pairs().find(|(name, _)| name == "state");
        prop_assert_eq!(state.map(|(_, value)| value.into_owned()).unwrap_or_default(), value);
    }
}
