//! MCP Apps: two servers whose tools and user interfaces have the same names and URIs, and one with a catch-all template.

use serde_json::{Value, json};
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::{ExtensionServer, Gateway, skipped};

const UI: &str = "io.modelcontextprotocol/ui";

struct Apps {
    gateway: Gateway,
    _servers: [ExtensionServer; 3],
}

impl Apps {
    async fn start() -> Self {
        let servers = [
            ExtensionServer::greedy_apps("gamma").await.unwrap(),
            ExtensionServer::apps("alpha").await.unwrap(),
            ExtensionServer::apps("beta").await.unwrap(),
        ];
        let backend = |(name, server): (&str, &ExtensionServer)| {
            format!("- {{name: {name}, url: \"{}\", transport: streamable-http}}\n", server.url())
        };
        let backends: Vec<_> =
            ["gamma", "alpha", "beta"].into_iter().zip(&servers).map(backend).collect();
        let yaml = format!(
            "name: tests\nincomingAuth: {{type: anonymous}}\nbackends:\n{}",
            backends.concat()
        );
        Self { gateway: Gateway::start(&yaml).await.unwrap(), _servers: servers }
    }

    /// A client with a session and one without.
    async fn callers(&self) -> [Caller; 2] {
        let capabilities =
            json!({ "extensions": { UI: { "mimeTypes": ["text/html;profile=mcp-app"] } } });
        [
            Caller::stateful_with(self.gateway.url(), capabilities.clone()).await.unwrap(),
            Caller::stateless_with(self.gateway.url(), capabilities),
        ]
    }
}

/// Returns the URI of a tool's user interface from either member that may contain it.
fn interface(tool: &Value) -> Option<&str> {
    let meta = &tool["_meta"];
    meta["ui"]["resourceUri"].as_str().or(meta["ui/resourceUri"].as_str())
}

async fn tools(caller: &mut Caller) -> Vec<Value> {
    let listed = caller.result("tools/list", json!({})).await.unwrap();
    listed["tools"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn reads_page_of_own_backend() {
    if skipped() {
        return;
    }
    let apps = Apps::start().await;
    for mut caller in apps.callers().await {
        let mut count = 0;
        for tool in tools(&mut caller).await {
            let Some(uri) = interface(&tool) else { continue };
            let name = tool["name"].as_str().unwrap();
            let backend = name.split('_').next().unwrap();
            let read = caller.result("resources/read", json!({ "uri": uri })).await.unwrap();
            let page = &read["contents"][0];
            let title = format!("<title>{backend}</title>");
            assert!(page["text"].as_str().unwrap().contains(&title), "{name} {uri}: {page}");
            assert_eq!(page["uri"], uri, "{name}");
            assert_eq!(page["mimeType"], "text/html;profile=mcp-app");
            count += 1;
        }
        // show, show_legacy, show_unlisted, show_nested, refresh and conditional, twice.
        assert_eq!(count, 12);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_each_interface_once() {
    if skipped() {
        return;
    }
    let apps = Apps::start().await;
    for mut caller in apps.callers().await {
        let listed = caller.result("resources/list", json!({})).await.unwrap();
        let uris: Vec<_> =
            listed["resources"].as_array().unwrap().iter().map(|it| &it["uri"]).collect();
        assert_eq!(
            uris,
            [
                "ui://app/alpha.html",
                "ui://app/beta.html",
                "ui://app/legacy.html",
                "ui://app/main.html",
                "ui://vmcp/beta/app/legacy.html",
                "ui://vmcp/beta/app/main.html",
            ]
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keeps_visibility() {
    if skipped() {
        return;
    }
    let apps = Apps::start().await;
    for mut caller in apps.callers().await {
        let tools = tools(&mut caller).await;
        let visible = |name: &str| {
            let tool = tools.iter().find(|tool| tool["name"] == name);
            tool.unwrap_or_else(|| panic!("{name} is not listed"))["_meta"]["ui"]["visibility"]
                .clone()
        };
        for backend in ["alpha", "beta"] {
            assert_eq!(visible(&format!("{backend}_refresh")), json!(["app"]));
            assert_eq!(visible(&format!("{backend}_{backend}_save")), json!(["app"]));
            assert_eq!(visible(&format!("{backend}_think")), json!(["model"]));
            assert_eq!(visible(&format!("{backend}_show")), Value::Null);
        }
    }
}

async fn server(caller: &mut Caller, tool: &str) -> Result<String, Value> {
    let answer = caller.ask("tools/call", json!({ "name": tool, "arguments": {} })).await.unwrap();
    match answer["result"]["structuredContent"]["server"].as_str() {
        Some(server) => Ok(server.to_owned()),
        None => Err(answer["error"].clone()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn app_calls_own_backend_under_original_name() {
    if skipped() {
        return;
    }
    let apps = Apps::start().await;
    let ambiguous =
        "several backends have a tool named refresh: call it alpha_refresh or beta_refresh";
    for mut caller in apps.callers().await {
        for backend in ["alpha", "beta"] {
            // The name is unique to one backend.
            let save = format!("{backend}_save");
            assert_eq!(server(&mut caller, &save).await.as_deref(), Ok(backend));
        }
        let refused = server(&mut caller, "refresh").await.unwrap_err();
        assert_eq!((&refused["code"], &refused["message"]), (&json!(-32602), &json!(ambiguous)));
        let unknown = server(&mut caller, "think").await.unwrap_err();
        assert_eq!(unknown["message"], "unknown tool: think");
        let unknown = server(&mut caller, "declared_not").await.unwrap_err();
        assert_eq!(unknown["message"], "unknown tool: declared_not");
    }
    // A session has opened an app if it called its tool or read its page.
    let [mut calling, _] = apps.callers().await;
    assert_eq!(server(&mut calling, "beta_show").await.as_deref(), Ok("beta"));
    assert_eq!(server(&mut calling, "refresh").await.as_deref(), Ok("beta"));
    let [mut reading, _] = apps.callers().await;
    let uri = json!({ "uri": "ui://app/alpha.html" });
    reading.result("resources/read", uri).await.unwrap();
    assert_eq!(server(&mut reading, "refresh").await.as_deref(), Ok("alpha"));
    // With both apps open, the URI is ambiguous.
    assert_eq!(server(&mut calling, "alpha_show").await.as_deref(), Ok("alpha"));
    let refused = server(&mut calling, "refresh").await.unwrap_err();
    assert_eq!(refused["message"], ambiguous);
    // Advertised resources are always readable.
    assert_eq!(server(&mut calling, "alpha_refresh").await.as_deref(), Ok("alpha"));
}
