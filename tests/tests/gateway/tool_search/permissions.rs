//! Searches and calls of callers with different permissions.

use serde_json::{Value, json};
use vmcp_test_support::mcp_backend::Protocol;
use vmcp_test_support::{EmbeddingServer, McpBackend};
use vmcp_tests::authority::Authority;
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::Gateway;

use super::{backend, definition, find, forwarded, found, names, until_mode};
use crate::common::{config, ready, status, until};

const AUDIENCE: &str = "http://localhost/mcp";

/// Ann may use the orchids, Bob the tundra. No caller may write the text "secret".
const POLICIES: &str = r#"
  authz:
    type: cedar
    policies:
    - 'permit(principal == Client::"ann", action, resource) when { resource.name like "orchid_*" };'
    - 'permit(principal == Client::"bob", action, resource) when { resource.name like "tundra_*" };'
    - 'forbid(principal, action == Action::"call_tool", resource) when { context has arg_text && context.arg_text == "secret" };'
"#;

/// Users, with the backends that they see.
const USERS: [(&str, &str, &str); 2] = [("ann", "orchid", "tundra"), ("bob", "tundra", "orchid")];

fn orchid() -> McpBackend {
    let tools = [
        ("water", "Waters the orchids in the greenhouse"),
        ("read", "Reads the state of all orchids"),
        ("repot", "Repots an orchid"),
    ];
    backend("orchid", &tools).start()
}

fn tundra() -> McpBackend {
    let tools = [
        ("read", "Reads the temperature of the tundra"),
        ("drill", "Drills into the permafrost of the tundra"),
        ("water", "Measures the water of the tundra"),
    ];
    backend("tundra", &tools).start()
}

/// Starts a gateway in front of these backends for users with tokens.
async fn start(authority: &Authority, backends: &[&McpBackend], sections: &str) -> Gateway {
    let incoming = authority.section(AUDIENCE) + POLICIES.trim_start_matches('\n');
    let yaml = config(backends.iter().map(|it| (it.name(), it.url())), sections);
    ready(&yaml.replace("incomingAuth: {type: anonymous}\n", &incoming)).await
}

/// Returns a client of each generation for a user.
async fn callers_of(gateway: &Gateway, authority: &Authority, user: &str) -> [Caller; 2] {
    let (url, token) = (gateway.url(), authority.token(user, AUDIENCE, 1));
    [Caller::stateful_as(url, &token).await.unwrap(), Caller::stateless_as(url, &token)]
}

/// Returns the response to a call of `tool` by `call_tool`, without its id.
async fn call(caller: &mut Caller, tool: &str, parameters: Value) -> String {
    let params = json!({"name": "call_tool", "arguments": forwarded(tool, parameters)});
    let reply = caller.reply("tools/call", params).await.unwrap();
    let mut message = reply.message().unwrap();
    message["id"] = Value::Null;
    format!("{} {message}", reply.status)
}

#[tokio::test(flavor = "multi_thread")]
async fn hidden_tools_are_neither_found_nor_called() {
    let (authority, a, b) = (Authority::start().unwrap(), orchid(), tundra());
    let gateway = start(&authority, &[&a, &b], "optimizer: {}\n").await;
    for (user, own, other) in USERS {
        for caller in &mut callers_of(&gateway, &authority, user).await {
            assert_eq!(caller.tools().await.unwrap(), ["call_tool", "find_tool"]);
            let content = find(caller, "read and water the orchid and the tundra").await;
            assert!(!content["tools"].as_array().unwrap().is_empty());
            assert!(names(&content).iter().all(|name| name.starts_with(own)), "{content}");
            let answered = call(caller, &format!("{own}_read"), json!({"text": "x"})).await;
            assert!(answered.contains(r#""structuredContent":{"text":"x"}"#), "{answered}");
            let hidden = call(caller, &format!("{other}_read"), json!({"text": "x"})).await;
            let unknown = call(caller, &format!("{other}_none"), json!({"text": "x"})).await;
            assert_eq!(hidden.replace("_read", "_none"), unknown);
            assert!(unknown.contains("-32602"), "{unknown}");
            // As without the detour.
            let params = json!({"name": format!("{other}_none"), "arguments": {"text": "x"}});
            let mut direct = caller.ask("tools/call", params).await.unwrap();
            direct["id"] = Value::Null;
            assert!(unknown.ends_with(&direct.to_string()), "{unknown} instead of {direct}");
            let denied = call(caller, &format!("{own}_read"), json!({"text": "secret"})).await;
            assert!(denied.contains("403"), "{denied}");
        }
    }
    for backend in [a, b] {
        for call in backend.messages().iter().filter(|it| it["method"] == "tools/call") {
            assert_eq!(call["params"]["arguments"], json!({"text": "x"}), "{call}");
        }
        assert_eq!(backend.count("tools/call"), 2);
    }
}

/// Returns the bytes of some searches, once the embeddings are there.
async fn searches(gateway: &Gateway, authority: &Authority, user: &str) -> Vec<bytes::Bytes> {
    let mut bodies = Vec::new();
    for caller in &mut callers_of(gateway, authority, user).await {
        for text in ["read", "water the plants", "rain", "drill a hole", "tundra", "nothing"] {
            until_mode(caller, text, "hybrid").await;
        }
    }
    for caller in &mut callers_of(gateway, authority, user).await {
        for text in ["read", "water the plants", "rain", "drill a hole", "tundra", "nothing"] {
            let params = json!({"name": "find_tool", "arguments": {"tool_description": text}});
            bodies.push(caller.reply("tools/call", params).await.unwrap().body);
        }
    }
    bodies
}

/// Compares the responses to callers. `/metrics` and `/status` count the tools and searches of all callers: they are for
/// operators, and no response to a caller repeats their numbers.
#[tokio::test(flavor = "multi_thread")]
async fn results_equal_those_without_hidden_tools() {
    let (authority, a, b) = (Authority::start().unwrap(), orchid(), tundra());
    let service = EmbeddingServer::new().start();
    let section = format!("optimizer: {}\n", json!({"embeddingService": service.url()}));
    let whole = start(&authority, &[&a, &b], &section).await;
    for (user, backend) in [("ann", &a), ("bob", &b)] {
        let visible = start(&authority, &[backend], &section).await;
        let expected = searches(&visible, &authority, user).await;
        assert_eq!(searches(&whole, &authority, user).await, expected, "{user}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn interleaved_callers_learn_nothing_of_each_other() {
    let (authority, a, b) = (Authority::start().unwrap(), orchid(), tundra());
    let gateway = start(&authority, &[&a, &b], "optimizer: {}\n").await;
    let mut tasks = tokio::task::JoinSet::new();
    for (user, own, other) in USERS {
        for mut caller in callers_of(&gateway, &authority, user).await {
            tasks.spawn(async move {
                let expected = find(&mut caller, "read and water the plants").await;
                let unknown = call(&mut caller, "missing_read", json!({})).await;
                for number in 0..125 {
                    let content = find(&mut caller, "read and water the plants").await;
                    assert_eq!(content, expected, "{user} {number}");
                    assert!(!content.to_string().contains(other), "{content}");
                    let tool = if number % 5 == 0 { other } else { own };
                    let tool = format!("{tool}_read");
                    let answered = call(&mut caller, &tool, json!({"text": user})).await;
                    if number % 5 == 0 {
                        assert_eq!(answered.replace(&tool, "missing_read"), unknown);
                    } else {
                        let content = format!(r#""structuredContent":{{"text":"{user}"}}"#);
                        assert!(answered.contains(&content), "{answered}");
                    }
                }
            });
        }
    }
    for done in tasks.join_all().await {
        assert_eq!(done, ());
    }
    for (backend, user) in [(a, "ann"), (b, "bob")] {
        let calls = backend.messages().into_iter().filter(|it| it["method"] == "tools/call");
        assert!(calls.into_iter().all(|call| call["params"]["arguments"]["text"] == user));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_caller_searches_its_own_catalog() {
    let authority = Authority::start().unwrap();
    let personal = backend("p", &[])
        .protocol(Protocol::Stateless)
        .on("tools/list", |request| {
            let bearer = request.headers()["authorization"].to_str().unwrap().to_owned();
            let user = bearer.rsplit('-').next().unwrap();
            let tools = [definition(&format!("{user}_only"), &format!("Diary of {user}"))];
            request.succeed(&json!({"tools": tools, "ttlMs": 0, "cacheScope": "private"}));
        })
        .on("tools/call", |call| {
            let content = json!({"tool": call.params()["name"]});
            call.succeed(&json!({"content": [], "structuredContent": content}));
        })
        .start();
    let exchange =
        json!({"type": "token_exchange", "tokenExchange": {"tokenUrl": authority.token_url()}});
    let sections =
        format!("optimizer: {{}}\noutgoingAuth: {{source: inline, default: {exchange}}}\n");
    let yaml = config([("p", personal.url())], &sections);
    let incoming = authority.section(AUDIENCE);
    let yaml = yaml.replace("incomingAuth: {type: anonymous}\n", &incoming);
    let gateway = Gateway::start(&yaml).await.unwrap();
    for (user, other) in [("ann", "bob"), ("bob", "ann")] {
        for caller in &mut callers_of(&gateway, &authority, user).await {
            until("the own tool is found", async || {
                found(caller, "diary").await == [format!("p_{user}_only")]
            })
            .await;
            let own = call(caller, &format!("p_{user}_only"), json!({})).await;
            assert!(own.contains(&format!(r#""tool":"{user}_only""#)), "{own}");
            let foreign = call(caller, &format!("p_{other}_only"), json!({})).await;
            let unknown = call(caller, "p_eve_only", json!({})).await;
            assert_eq!(foreign.replace(other, "eve"), unknown);
        }
    }
    assert!(status(&gateway).await["optimizer"]["indexed_tools"].as_u64() >= Some(2));
}
