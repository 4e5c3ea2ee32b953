use serde_json::{Value, json};

use super::*;

const ISSUER: &str = "https://id.example";

fn resource(url: &str) -> Result<ProtectedResource, ResourceError> {
    ProtectedResource::new(url, ISSUER, &["mcp:call", "offline_access"], ResourceOptions::default())
}

#[test]
fn document_follows_rfc_9728() {
    let metadata_document = resource("https://mcp.example/mcp").unwrap();
    let read: Value = serde_json::from_slice(metadata_document.document()).unwrap();
    let expected = json!({
        "resource": "https://mcp.example/mcp",
        "authorization_servers": [ISSUER],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["mcp:call"],
    });
    assert_eq!(read, expected);
}

#[test]
fn advertises_openid_without_other_scopes() {
    for scopes in [&[][..], &["offline_access"]] {
        let options = ResourceOptions::default();
        let resource = ProtectedResource::new("https://a/", ISSUER, scopes, options).unwrap();
        assert_eq!(*resource.scopes(), [Box::from("openid")]);
    }
}

#[test]
fn serves_document_at_well_known_paths_only() {
    let with_path = resource("https://mcp.example/team/mcp").unwrap();
    for (path, served) in [
        ("/.well-known/oauth-protected-resource", true),
        ("/.well-known/oauth-protected-resource/", true),
        ("/.well-known/oauth-protected-resource/team/mcp", true),
        ("/.well-known/oauth-protected-resource/team", false),
        ("/.well-known/oauth-protected-resource/other", false),
        ("/.well-known/oauth-protected-resourceful", false),
        ("/team/mcp", false),
    ] {
        assert_eq!(with_path.response::<Bytes>(&Method::GET, path).is_some(), served, "{path}");
    }
}

#[test]
fn derives_metadata_url_from_resource() {
    for (url, metadata) in [
        ("https://mcp.example/mcp", "https://mcp.example/.well-known/oauth-protected-resource/mcp"),
        ("https://mcp.example/", "https://mcp.example/.well-known/oauth-protected-resource"),
        ("https://mcp.example", "https://mcp.example/.well-known/oauth-protected-resource"),
        (
            "http://127.0.0.1:4483/mcp",
            "http://127.0.0.1:4483/.well-known/oauth-protected-resource/mcp",
        ),
        ("https://a.example/m?t=1", "https://a.example/.well-known/oauth-protected-resource/m?t=1"),
    ] {
        assert_eq!(resource(url).unwrap().metadata_url(), metadata, "{url}");
    }
}

#[test]
fn allows_any_origin() {
    let resource = resource("https://mcp.example/mcp").unwrap();
    for (method, status) in
        [(Method::GET, 200), (Method::HEAD, 200), (Method::OPTIONS, 204), (Method::POST, 405)]
    {
        let answer = resource.response::<Bytes>(&method, WELL_KNOWN).unwrap();
        assert_eq!(answer.status(), status, "{method}");
        assert_eq!(answer.headers()["access-control-allow-origin"], "*");
        assert_eq!(answer.headers()["access-control-max-age"], "86400");
    }
}

#[test]
fn requires_https_except_on_loopback_and_cluster_services() {
    for url in [
        "https://mcp.example",
        "http://localhost:1/m",
        "http://[::1]/",
        "http://127.0.0.9/",
        "http://vmcp-tools.team.svc/mcp",
        "http://vmcp-tools.team.svc:4483/mcp",
        "http://vmcp-tools.team.SVC.cluster.local:4483/mcp",
        "http://vmcp-tools.team.svc.corp.example./mcp",
    ] {
        assert!(resource(url).is_ok(), "{url}");
    }
    for url in [
        "mcp",
        "/mcp",
        "",
        "urn:mcp",
        "http://mcp.example/mcp",
        "ftp://mcp.example",
        "https://u@mcp.example/",
        "https://mcp.example/#f",
        "http://localhost.example/",
        "http://svc/",
        "http://team.svc/",
        "http://.team.svc/",
        "http://tools.team.svcs/",
        "http://tools.team.example.svc/",
    ] {
        assert_eq!(resource(url), Err(ResourceError::Url), "{url}");
    }
    let options = ResourceOptions { allow_http: true, allow_private_address: false };
    let scopes: [&str; 0] = [];
    assert!(ProtectedResource::new("http://tools.team:4483/mcp", ISSUER, &scopes, options).is_ok());
}

#[test]
fn rejects_private_address_unless_allowed() {
    let options = ResourceOptions { allow_http: false, allow_private_address: true };
    for url in ["https://10.0.0.1/", "https://[fd00::1]/", "https://169.254.169.254/"] {
        assert!(matches!(resource(url), Err(ResourceError::PrivateAddress { .. })), "{url}");
        assert!(ProtectedResource::new(url, ISSUER, &["a"], options).is_ok(), "{url}");
    }
}

#[test]
fn rejects_invalid_scopes() {
    for bad in ["a b", "a\"b", "", "a\nb"] {
        let refused =
            ProtectedResource::new("https://a", ISSUER, &[bad], ResourceOptions::default());
        assert_eq!(refused, Err(ResourceError::Scope { scope: bad.into() }));
    }
}

#[test]
fn document_lists_all_scopes() {
    let options = ResourceOptions::default();
    let scopes = ["mcp:call", "mcp:list", "mcp:read"];
    let resource = ProtectedResource::new("https://a/", ISSUER, &scopes, options).unwrap();
    let document: Value = serde_json::from_slice(resource.document()).unwrap();
    assert_eq!(document["scopes_supported"], json!(scopes));
}

#[test]
fn response_headers_follow_method() {
    let resource = resource("https://mcp.example/mcp").unwrap();
    let path = "/.well-known/oauth-protected-resource";
    for (method, status, media, allow) in [
        (Method::GET, 200, Some("application/json"), false),
        (Method::OPTIONS, 204, None, false),
        (Method::POST, 405, None, true),
    ] {
        let response = resource.response::<Bytes>(&method, path).unwrap();
        assert_eq!(response.status(), status, "{method}");
        let content_type = response.headers().get(CONTENT_TYPE).map(|it| it.to_str().unwrap());
        assert_eq!(content_type, media, "{method}");
        assert_eq!(response.headers().contains_key(ALLOW), allow, "{method}");
    }
}
