//! Tests for the content and the escaping of pages.

use super::*;
use crate::Scopes;
use crate::redirect_uri::RedirectUri;

async fn text(response: Response) -> String {
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn ask<'a>(client: &'a str, redirect: &'a RedirectUri, scopes: &'a Scopes) -> ConsentPage<'a> {
    ConsentPage {
        client,
        metadata_host: None,
        redirect,
        scopes,
        resource: "https://mcp.example/mcp",
        providers: &["corp", "git"],
        id: "the-id",
        csrf: "the-csrf",
        base: "/tenant",
    }
}

#[tokio::test]
async fn consent_page_shows_client_scopes_and_destination() {
    let redirect = RedirectUri::parse("https://app.example:8443/cb").unwrap();
    let scopes = Scopes::parse("openid files:read").unwrap();
    let page = text(Pages::new("Tools").consent(&ask("Editor", &redirect, &scopes))).await;
    for part in [
        "Allow <bdi>Editor</bdi> to use Tools on your behalf?",
        "Its name is not verified",
        "app.example:8443",
        "https://mcp.example/mcp",
        "identify you",
        "use the permission <code>files:read</code> of this server",
        "action=\"/tenant/oauth/consent\"",
        "value=\"the-csrf\"",
        "<bdi>corp</bdi></strong>, then at <strong><bdi>git</bdi>",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    assert!(!page.contains("any program on this computer"));
    let loopback = RedirectUri::parse("http://127.0.0.1:1234/cb").unwrap();
    let page = text(Pages::new("Tools").consent(&ask("Editor", &loopback, &scopes))).await;
    assert!(page.contains("any program on this computer"));
}

#[tokio::test]
async fn escapes_client_name_in_pages() {
    let redirect = RedirectUri::parse("https://app.example/cb").unwrap();
    let name = "</bdi><script>alert(1)</script>\"'&";
    let page = text(Pages::new("Tools").consent(&ask(name, &redirect, &Scopes::default()))).await;
    assert!(!page.contains("<script"));
    assert!(page.contains("&lt;script&gt;"));
    let to = "https://idp.example/a?x=\"><script>&y=1";
    let page = text(Pages::new("Tools").continue_to(to, "idp.example")).await;
    assert!(!page.contains("<script"));
}

#[tokio::test]
async fn shows_invisible_characters_of_names() {
    let redirect = RedirectUri::parse("https://app.example/cb").unwrap();
    let name = "Claude\u{202e}edualC\u{200b}\u{ad}";
    let page = text(Pages::new("Tools").consent(&ask(name, &redirect, &Scopes::default()))).await;
    assert!(page.contains(r"<bdi>Claude\u{202e}edualC\u{200b}\u{ad}</bdi>"), "{page}");
    assert!(!page.contains(['\u{202e}', '\u{200b}', '\u{ad}']));
}

#[tokio::test]
async fn pages_forbid_framing_caching_and_scripts() {
    let page = ErrorPage { status: StatusCode::BAD_REQUEST, title: "a", text: "b", help: "c" };
    let response = Pages::new("Tools").error(page);
    let headers = response.headers().clone();
    let policy = headers["content-security-policy"].to_str().unwrap();
    for part in
        ["default-src 'none'", "form-action 'self'", "frame-ancestors 'none'", "base-uri 'none'"]
    {
        assert!(policy.contains(part), "{policy}");
    }
    for (name, value) in [
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(headers[name], value);
    }
    // The hash in the policy must match the style in the page.
    let page = text(response).await;
    let style = page.split_once("<style>").unwrap().1.split_once("</style>").unwrap().0;
    let hash = STANDARD.encode(digest::digest(&digest::SHA256, style.as_bytes()));
    assert!(policy.contains(&hash));
}

#[test]
fn retryable_error_pages_have_retry_after() {
    let pages = Pages::new("Tools");
    for (page, when) in [
        (ErrorPage::RATE_LIMITED, Some("60")),
        (ErrorPage::UNAVAILABLE, Some("60")),
        (ErrorPage::LOGIN_EXPIRED, None),
    ] {
        let response = pages.error(page);
        let header = response.headers().get("retry-after").map(|value| value.to_str().unwrap());
        assert_eq!(header, when, "{page:?}");
    }
}

#[test]
fn redirects_with_status_303() {
    let response = redirect("https://app.example/cb?code=1");
    assert_eq!(response.status(), 303);
    assert_eq!(response.headers()["referrer-policy"], "no-referrer");
    assert_eq!(redirect("https://app.example/\r\nx: y").status(), 500);
}
