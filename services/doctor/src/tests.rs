//! Servers with one defect each.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use serde_json::{Value, json};
use tower::util::service_fn;
use url::Url;
use vmcp_core::{Body, BoxError};

use crate::{Client, Outcome, Report, examine};

const SERVER: &str = "https://mcp.example/team/mcp";
const PRM: &str = "https://mcp.example/.well-known/oauth-protected-resource/team/mcp";
const ROOT: &str = "https://mcp.example/.well-known/oauth-protected-resource";
const ISSUER: &str = "https://as.example/tenant";
const OAUTH: &str = "https://as.example/.well-known/oauth-authorization-server/tenant";
const OPENID: &str = "https://as.example/.well-known/openid-configuration/tenant";
const APPENDED: &str = "https://as.example/tenant/.well-known/openid-configuration";
const REGISTER: &str = "https://as.example/register";

/// Responses by URL; any other URL is a 404.
#[derive(Clone)]
struct FakeServers {
    pages: BTreeMap<&'static str, (u16, Option<String>, Value)>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl FakeServers {
    /// Creates servers that all clients accept.
    fn new() -> Self {
        let mut this = Self { pages: BTreeMap::new(), asked: Arc::default() };
        this.challenge(401, &format!("Bearer resource_metadata=\"{PRM}\", scope=\"tools\""));
        this.put(PRM, 200, json!({"resource": SERVER, "authorization_servers": [ISSUER]}));
        this.put(OAUTH, 200, metadata());
        this.put(REGISTER, 201, json!({"client_id": "the-id", "client_secret": "canary"}));
        this
    }

    fn put(&mut self, url: &'static str, status: u16, body: Value) {
        self.pages.insert(url, (status, None, body));
    }

    fn challenge(&mut self, status: u16, header: &str) {
        self.pages.insert(SERVER, (status, Some(header.to_owned()), Value::Null));
    }

    fn response(&self, request: &Request<Body>) -> Response<Body> {
        let url = request.uri().to_string();
        self.asked.lock().unwrap().push(format!("{} {url}", request.method()));
        let missing = (404, None, Value::Null);
        let (status, header, body) = self.pages.get(&*url).unwrap_or(&missing);
        let mut response = Response::new(Bytes::from(body.to_string()).into());
        *response.status_mut() = (*status).try_into().unwrap();
        if let Some(header) = header {
            response.headers_mut().insert("www-authenticate", header.parse().unwrap());
        }
        response
    }

    async fn examined(&self, client: Client, registers: bool) -> Report {
        let this = self.clone();
        let http = service_fn(move |request: Request<Body>| {
            let response = this.response(&request);
            async move { Ok::<_, BoxError>(response) }
        });
        examine(http, client, &Url::parse(SERVER).unwrap(), registers).await
    }

    /// Returns the clients that stop, with the finding and the change.
    async fn refused(&self) -> Vec<(Client, String)> {
        let mut refused = Vec::new();
        for client in Client::ALL {
            let report = self.examined(client, false).await;
            if let Some(step) = report.mismatch() {
                assert_eq!(
                    Some(step),
                    report.steps.last(),
                    "the discovery continues after a mismatch"
                );
                let change = step.change.as_deref().unwrap();
                refused.push((client, format!("{}: {}: {change}", step.what, step.found)));
            }
        }
        refused
    }

    /// Returns the clients that stop, whose message must contain `part`.
    async fn refused_for(&self, part: &str) -> Vec<Client> {
        let refused = self.refused().await;
        for (client, says) in &refused {
            assert!(says.contains(part), "{client:?}: {says}");
        }
        refused.into_iter().map(|(client, _)| client).collect()
    }

    fn without(&mut self, url: &str, member: &str) {
        let (_, _, body) = self.pages.get_mut(url).unwrap();
        body.as_object_mut().unwrap().remove(member).unwrap();
    }

    fn with(&mut self, url: &str, member: &str, value: Value) {
        self.pages.get_mut(url).unwrap().2[member] = value;
    }
}

fn metadata() -> Value {
    json!({
        "issuer": ISSUER,
        "authorization_endpoint": "https://as.example/authorize",
        "token_endpoint": "https://as.example/token",
        "registration_endpoint": REGISTER,
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "client_id_metadata_document_supported": true,
        "scopes_supported": ["tools"],
    })
}

const ALL: [Client; 5] = Client::ALL;
const TYPESCRIPT_SDK: [Client; 2] = [Client::Cursor, Client::Inspector];

#[tokio::test]
async fn correct_server_passes_without_registration() {
    let web = FakeServers::new();
    assert_eq!(web.refused_for("").await, []);
    assert!(web.asked.lock().unwrap().iter().all(|it| !it.ends_with("/register")));
    let report = web.examined(Client::Cursor, false).await;
    let finding =
        |what: &str| report.steps.iter().find(|step| step.what.starts_with(what)).unwrap();
    assert!(finding("POST https://as.example/register").found.starts_with("not sent: {"));
    let opened = &finding("authorization request").found;
    assert!(
        opened.starts_with("https://as.example/authorize?response_type=code&client_id=CLIENT_ID&")
    );
    assert!(
        opened.ends_with("&scope=tools&resource=https%3A%2F%2Fmcp.example%2Fteam%2Fmcp"),
        "{opened}"
    );
    assert_eq!(finding("scopes").found, "tools, from the challenge");
}

#[tokio::test]
async fn registers_on_request_without_showing_secrets() {
    let web = FakeServers::new();
    let report = web.examined(Client::Cursor, true).await;
    assert_eq!(report.mismatch(), None);
    assert!(web.asked.lock().unwrap().contains(&format!("POST {REGISTER}")));
    let shown = format!("{report:?}");
    assert!(shown.contains("client_id the-id") && !shown.contains("canary"));
    // A client with a metadata document does not register.
    let report = web.examined(Client::VsCode, true).await;
    let found = &report.steps.iter().find(|step| step.what == "client_id is").unwrap().found;
    assert!(found.starts_with("https://vscode.dev/oauth/client-metadata.json"));

    let mut web = FakeServers::new();
    web.put(
        REGISTER,
        400,
        json!({"error": "invalid_redirect_uri", "error_description": "no cursor:"}),
    );
    let report = web.examined(Client::Cursor, true).await;
    let step = report.mismatch().unwrap();
    assert_eq!(step.found, "400 Bad Request: invalid_redirect_uri no cursor:");
    assert!(
        step.change.as_deref().unwrap().contains("cursor://anysphere.cursor-mcp/oauth/callback")
    );
    web.put(
        REGISTER,
        201,
        json!({"client_id": "x", "redirect_uris": ["http://localhost:8787/callback"]}),
    );
    let report = web.examined(Client::Cursor, true).await;
    assert!(report.mismatch().unwrap().found.contains("without the redirect URI \"cursor:"));
    web.put(REGISTER, 201, json!({}));
    let report = web.examined(Client::Cursor, true).await;
    assert!(report.mismatch().unwrap().found.contains("without a client_id"));
}

#[tokio::test]
async fn requests_follow_the_order_of_the_client() {
    let mut web = FakeServers::new();
    web.challenge(401, "Bearer");
    web.pages.remove(PRM);
    web.put(
        ROOT,
        200,
        json!({"resource": SERVER, "authorization_servers": [ISSUER, "https://b.example"]}),
    );
    web.pages.remove(OAUTH);
    web.put(APPENDED, 200, metadata());
    for client in Client::ALL {
        web.asked.lock().unwrap().clear();
        let report = web.examined(client, false).await;
        assert_eq!(report.mismatch(), None, "{client:?}");
        let asked = web.asked.lock().unwrap().clone();
        let gets = [PRM, ROOT, OAUTH, OPENID, APPENDED].map(|url| format!("GET {url}"));
        assert_eq!(asked[0], format!("POST {SERVER}"));
        assert_eq!(asked[1..], gets);
        assert!(report.steps.iter().any(|step| step.found.contains("the client uses the first")));
    }
}

#[tokio::test]
async fn challenge_is_401_with_absolute_url() {
    let mut web = FakeServers::new();
    web.challenge(200, "");
    assert_eq!(web.refused_for("expect no login").await, ALL);
    web.challenge(404, "");
    assert_eq!(web.refused_for("MCP endpoint").await, ALL);
    web.challenge(500, "");
    assert_eq!(web.refused_for("respond with 401").await, ALL);
    web.challenge(403, &format!("Bearer resource_metadata=\"{PRM}\""));
    let others: Vec<_> = ALL.into_iter().filter(|it| *it != Client::VsCode).collect();
    assert_eq!(web.refused_for("respond with 401, not 403").await, others);
    web.challenge(401, "Bearer resource_metadata=\"/.well-known/oauth-protected-resource\"");
    assert_eq!(web.refused_for("absolute URL").await, [Client::Claude]);
    web.challenge(401, "Basic realm=x");
    assert_eq!(web.refused_for("").await, []);
}

#[tokio::test]
async fn resource_matches_server_and_names_issuer() {
    let mut web = FakeServers::new();
    web.with(PRM, "resource", "https://mcp.example/team".into());
    assert_eq!(web.refused_for(SERVER).await, [Client::Claude, Client::VsCode]);
    for other in ["https://mcp.example/team/m", "http://mcp.example/team/mcp", "urn:x", ""] {
        web.with(PRM, "resource", other.into());
        assert_eq!(web.refused_for("set resource to https://mcp.example/team/mcp").await, ALL);
    }
    let mut web = FakeServers::new();
    web.with(PRM, "authorization_servers", json!([]));
    assert_eq!(web.refused_for("no authorization server listed").await, ALL);
    web.with(PRM, "authorization_servers", json!(["http://as.example"]));
    assert_eq!(web.refused_for("https URL in authorization_servers").await, ALL);
    web.put(PRM, 404, Value::Null);
    assert_eq!(web.refused_for("at the URL in the challenge").await, ALL);
}

#[tokio::test]
async fn missing_metadata_falls_back_to_server_origin() {
    let mut web = FakeServers::new();
    web.challenge(401, "Bearer");
    web.pages.remove(PRM);
    let refused = web.refused().await;
    let chatgpt = refused.iter().find(|(client, _)| *client == Client::ChatGpt).unwrap();
    assert!(chatgpt.1.contains("serve the metadata of RFC 9728"));
    for (client, says) in refused.iter().filter(|(client, _)| *client != Client::ChatGpt) {
        assert!(
            says.contains("none of the URLs for https://mcp.example has metadata"),
            "{client:?} {says}"
        );
    }
    let mut own = metadata();
    own["issuer"] = "https://mcp.example".into();
    web.put("https://mcp.example/.well-known/oauth-authorization-server", 200, own);
    assert_eq!(web.refused_for("RFC 9728").await, [Client::ChatGpt]);
    web.put(PRM, 503, Value::Null);
    let mut ended = vec![Client::ChatGpt];
    ended.extend(TYPESCRIPT_SDK);
    assert_eq!(web.refused_for("RFC 9728").await, ended);
}

#[tokio::test]
async fn reports_incomplete_authorization_server_metadata() {
    for (member, value, says, who) in [
        ("issuer", json!("https://as.example"), "byte for byte", &[Client::Inspector][..]),
        ("issuer", json!(7), "byte for byte", &ALL),
        ("authorization_endpoint", json!("http://as.example/a"), "https URL", &ALL),
        ("token_endpoint", json!("/token"), "absolute https URL", &ALL),
        ("registration_endpoint", json!("/r"), "absolute https URL", &ALL),
        ("response_types_supported", json!(["token"]), "list code", &ALL),
        ("grant_types_supported", json!(["implicit"]), "list authorization_code", &ALL),
        ("code_challenge_methods_supported", json!(["plain"]), "list S256", &ALL),
    ] {
        let mut web = FakeServers::new();
        web.with(OAUTH, member, value);
        assert_eq!(web.refused_for(says).await, who, "{member}");
    }
    for (member, says, who) in [
        ("authorization_endpoint", "missing", &ALL[..]),
        ("token_endpoint", "missing", &ALL),
        ("response_types_supported", "missing", &ALL),
        ("code_challenge_methods_supported", "list S256", &[Client::ChatGpt]),
        ("registration_endpoint", "have to enter", &TYPESCRIPT_SDK),
        ("scopes_supported", "", &[]),
    ] {
        let mut web = FakeServers::new();
        web.without(OAUTH, member);
        assert_eq!(web.refused_for(says).await, who, "{member}");
    }
    let mut web = FakeServers::new();
    web.put(OAUTH, 500, Value::Null);
    web.put(OPENID, 200, metadata());
    assert_eq!(web.refused_for("or with 404").await, TYPESCRIPT_SDK);
    web.put(OAUTH, 200, json!([]));
    assert_eq!(web.refused_for("not a JSON object").await, TYPESCRIPT_SDK);
    web.pages.remove(OPENID);
    web.pages.remove(OAUTH);
    assert_eq!(web.refused_for("RFC 8414 section 3.1").await, ALL);
}

#[tokio::test]
async fn registers_where_documents_are_unsupported() {
    let mut web = FakeServers::new();
    web.without(OAUTH, "client_id_metadata_document_supported");
    assert_eq!(web.refused_for("").await, []);
    web.without(OAUTH, "registration_endpoint");
    assert_eq!(web.refused_for("have to enter").await, ALL);
    let mut web = FakeServers::new();
    web.with(OAUTH, "token_endpoint_auth_methods_supported", json!(["client_secret_basic"]));
    web.without(OAUTH, "registration_endpoint");
    let mut refused = vec![Client::Claude];
    refused.extend(TYPESCRIPT_SDK);
    assert_eq!(web.refused_for("have to enter").await, refused);
}

#[tokio::test]
async fn notes_scopes_that_are_not_offered() {
    let mut web = FakeServers::new();
    web.with(OAUTH, "scopes_supported", json!(["openid"]));
    let report = web.examined(Client::VsCode, false).await;
    let step = report.steps.iter().find(|step| step.what == "scopes").unwrap();
    assert_eq!(step.outcome, Outcome::Note);
    assert!(step.found.ends_with("does not list tools"), "{}", step.found);
}

#[tokio::test]
async fn hosted_clients_need_public_https_addresses() {
    let down = service_fn(async |_: Request<Body>| Err::<Response<Body>, BoxError>("down".into()));
    let of =
        async |client, url: &str| examine(down, client, &Url::parse(url).unwrap(), false).await;
    let report = of(Client::Claude, "http://mcp.example/mcp").await;
    assert_eq!(report.mismatch().unwrap().change.as_deref(), Some("serve it over https"));
    let report = of(Client::Claude, "http://localhost:1/mcp").await;
    assert_eq!(report.steps[0].outcome, Outcome::Note);
    assert_eq!(report.mismatch().unwrap().found, "down");
    assert_eq!(
        of(Client::Cursor, "http://mcp.example/mcp").await.mismatch().unwrap().found,
        "down"
    );
}
