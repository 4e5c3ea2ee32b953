//! Tests of messages that are rejected before they reach the service.

use vmcp_core::ItemKind;

use super::*;

const UNKNOWN_TOOL: &str =
    r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"unknown tool: secret"}}"#;
const DENIED: &str =
    r#"{"jsonrpc":"2.0","id":7,"error":{"code":403,"message":"denied by authorization policy"}}"#;

async fn gate(method: &str, params: &str) -> StatusAndBody {
    send(&layer(), request(method, params), inner_response).await
}

#[tokio::test]
async fn unrestricted_methods_pass() {
    for method in [
        "initialize",
        "ping",
        "server/discover",
        "subscriptions/listen",
        "logging/setLevel",
        "notifications/cancelled",
        "notifications/progress",
        "notifications/tools/list_changed",
    ] {
        assert_eq!(gate(method, "{}").await, (200, "passed".to_owned()), "{method}");
    }
}

#[tokio::test]
async fn denies_unknown_methods() {
    for method in
        ["tasks/get", "sampling/createMessage", "elicitation/create", "tools/paint", "Tools/Call"]
    {
        assert_eq!(gate(method, "{}").await, (403, DENIED.to_owned()), "{method}");
    }
}

#[tokio::test]
async fn denies_listening_to_tasks() {
    let listen = |ids: &str| format!(r#"{{"notifications":{{"taskIds":{ids}}}}}"#);
    assert_eq!(gate("subscriptions/listen", &listen("[]")).await.0, 200);
    let (status, body) = gate("subscriptions/listen", &listen(r#"["t"]"#)).await;
    assert_eq!((status, body), (403, DENIED.to_owned()));
}

#[tokio::test]
async fn responses_to_server_requests_pass() {
    let answer = message(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Generation::Stateful);
    assert_eq!(send(&layer(), answer, inner_response).await, (200, "passed".to_owned()));
}

#[tokio::test]
async fn hidden_names_look_unknown() {
    let name = r#"{"name":"secret","arguments":{}}"#;
    assert_eq!(gate("tools/call", name).await, (400, UNKNOWN_TOOL.to_owned()));
    let json = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{name}}}"#);
    let stateful = send(&layer(), message(&json, Generation::Stateful), inner_response).await;
    assert_eq!(stateful, (200, UNKNOWN_TOOL.to_owned()));
    // Under a policy that permits one tool, the existence of another one makes no difference.
    let one =
        AuthorizationLayer::new(
            |_: &Identity, item: &Item<'_>, _: Action<'_>| {
                if item.name == "open" { Decision::Allow } else { Decision::Hide }
            },
        );
    let exists = send(&one, request("tools/call", r#"{"name":"there"}"#), inner_response).await;
    let does_not = send(&one, request("tools/call", r#"{"name":"gone!"}"#), inner_response).await;
    assert_eq!(exists.1.replace("there", "gone!"), does_not.1);
}

#[tokio::test]
async fn authorizes_each_method_that_uses_items() {
    for (method, visible, hidden) in [
        ("tools/call", r#"{"name":"a"}"#, r#"{"name":"secret"}"#),
        ("prompts/get", r#"{"name":"a"}"#, r#"{"name":"\u0073ecret"}"#),
        ("resources/read", r#"{"uri":"a:"}"#, r#"{"uri":"secret:"}"#),
        ("resources/subscribe", r#"{"uri":"a:"}"#, r#"{"uri":"secret:"}"#),
        ("resources/unsubscribe", r#"{"uri":"a:"}"#, r#"{"uri":"secret:"}"#),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"a"},"argument":{"name":"x","value":""}}"#,
            r#"{"ref":{"type":"ref/prompt","name":"secret"},"argument":{"name":"x","value":""}}"#,
        ),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/resource","uri":"a:{b}"}}"#,
            r#"{"ref":{"type":"ref/resource","uri":"secret:{b}"}}"#,
        ),
        (
            "subscriptions/listen",
            r#"{"notifications":{"resourceSubscriptions":["a:","b:"]}}"#,
            r#"{"notifications":{"resourceSubscriptions":["a:","secret:"]}}"#,
        ),
    ] {
        assert_eq!(gate(method, visible).await, (200, INNER_RESPONSE.1.to_owned()), "{method}");
        let (status, body) = gate(method, hidden).await;
        assert!(status == 400 && body.contains("unknown "), "{method}: {status} {body}");
    }
}

#[tokio::test]
async fn denied_visible_name_gets_403() {
    let denied = gate("tools/call", r#"{"name":"a","arguments":{"bad":1}}"#).await;
    assert_eq!(denied, (403, DENIED.to_owned()));
}

#[tokio::test]
async fn reports_missing_scopes() {
    let (service, request) = (
        service_fn(|_: Request<()>| async { Ok::<_, std::io::Error>(inner_response()) }),
        request("prompts/get", r#"{"name":"admin"}"#),
    );
    let answer = layer().layer(service).oneshot(request).await.unwrap();
    let refusal = answer.extensions().get::<Rejection>().unwrap();
    let scopes = vmcp_core::Challenge::InsufficientScope(vec!["admin".into()]);
    assert_eq!((answer.status().as_u16(), refusal.challenge()), (403, Some(&scopes)));
}

#[tokio::test]
async fn notes_denials_for_audit() {
    for (params, denied) in
        [(r#"{"name":"secret"}"#, true), (r#"{"name":"a"}"#, false), (r#"{"name":1}"#, false)]
    {
        let mut request = request("tools/call", params);
        let request_context = RequestContext::of(request.extensions_mut());
        send(&layer(), request, inner_response).await;
        assert_eq!(request_context.denied().is_some(), denied, "{params}");
    }
}

#[tokio::test]
async fn rejects_ambiguous_parameters() {
    for (method, params) in [
        ("tools/call", r#"{"name":["a"]}"#),
        ("tools/call", "{}"),
        ("tools/call", r#"{"name":"a","arguments":[1]}"#),
        ("tools/call", r#"{"name":"a","arguments":null}"#),
        ("resources/read", r#"{"uri":null}"#),
        ("completion/complete", r#"{"ref":{"type":"ref/tool","name":"a"}}"#),
        ("completion/complete", r#"{"ref":{"type":"ref/prompt","uri":"a"}}"#),
        ("subscriptions/listen", r#"{"notifications":{"resourceSubscriptions":[1]}}"#),
    ] {
        let (status, body) = gate(method, params).await;
        assert!(status == 400 && body.contains("-32602"), "{method} {params}: {status} {body}");
    }
}

#[tokio::test]
async fn rejects_undecoded_messages() {
    let post = Request::post("/mcp").body(()).unwrap();
    assert_eq!(send(&layer(), post, inner_response).await.0, 500);
}

#[tokio::test]
async fn removes_last_event_id() {
    for (method, kept) in [("GET", false), ("DELETE", false)] {
        let request = Request::builder().method(method).header("last-event-id", "4").body(());
        let service = service_fn(|request: Request<()>| async move {
            let resumes = request.headers().contains_key("last-event-id");
            assert!(request.extensions().get::<CallerPermissions>().is_some());
            Ok::<_, std::io::Error>(json(if resumes { "resumed" } else { "anew" }))
        });
        let answer = layer().layer(service).oneshot(request.unwrap()).await.unwrap();
        assert_eq!(read(answer).await.1 == "resumed", kept);
    }
}

#[tokio::test]
async fn unknown_tools_get_worst_case_annotations() {
    let harmless = AuthorizationLayer::new(|_: &Identity, item: &Item<'_>, _: Action<'_>| {
        if item.annotations.destructive == Some(true) { Decision::Hide } else { Decision::Allow }
    });
    let call = || request("tools/call", r#"{"name":"t"}"#);
    assert_eq!(send(&harmless, call(), inner_response).await.0, 400);
    let list = r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"t","annotations":{"destructiveHint":false}},{"name":"d","annotations":{"destructiveHint":true}}]}}"#;
    let (_, listed) = send(&harmless, request("tools/list", "{}"), || json(list)).await;
    assert!(listed.contains(r#""name":"t""#) && !listed.contains(r#""name":"d""#), "{listed}");
    assert_eq!(send(&harmless, call(), inner_response).await.0, 200);
    assert_eq!(
        send(&harmless, request("tools/call", r#"{"name":"d"}"#), inner_response).await.0,
        400
    );
}

#[tokio::test]
async fn rejects_dot_segments_before_policies() {
    let everything =
        AuthorizationLayer::new(|_: &Identity, _: &Item<'_>, _: Action<'_>| Decision::Allow);
    let send = async |method: &str, params: String| {
        let json = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#);
        send(&everything, message(&json, Generation::Stateless), inner_response).await.0
    };
    for (uri, status) in [
        ("file:///public/a.txt", 200),
        ("file:///public/../secret", 400),
        ("file:///public/%2e%2E/secret", 400),
        ("file:///public/..%2fsecret", 400),
    ] {
        for method in ["resources/read", "resources/subscribe", "resources/unsubscribe"] {
            assert_eq!(
                send(method, format!(r#"{{"uri":"{uri}"}}"#)).await,
                status,
                "{method} {uri}"
            );
        }
        let listen = format!(r#"{{"notifications":{{"resourceSubscriptions":["{uri}"]}}}}"#);
        assert_eq!(send("subscriptions/listen", listen).await, status, "{uri}");
        let complete = format!(r#"{{"ref":{{"type":"ref/resource","uri":"{uri}"}}}}"#);
        assert_eq!(send("completion/complete", complete).await, status, "{uri}");
    }
    // Names of tools and prompts are not resolved like URIs.
    assert_eq!(send("tools/call", r#"{"name":"..","arguments":{}}"#.into()).await, 200);
}

#[tokio::test]
async fn completion_kind_follows_uri() {
    let only =
        |kind: ItemKind| {
            AuthorizationLayer::new(move |_: &Identity, item: &Item<'_>, _: Action<'_>| {
                if item.kind == kind { Decision::Allow } else { Decision::Deny }
            })
        };
    for (uri, kind) in [("a:{b}", ItemKind::ResourceTemplate), ("a:b", ItemKind::Resource)] {
        let params = format!(r#"{{"ref":{{"type":"ref/resource","uri":"{uri}"}}}}"#);
        let complete = || request("completion/complete", &params);
        assert_eq!(send(&only(kind), complete(), inner_response).await.0, 200, "{uri}");
        let tools = send(&only(ItemKind::Tool), complete(), inner_response).await;
        assert_eq!(tools, (403, DENIED.to_owned()), "{uri}");
    }
}

#[tokio::test]
async fn subscriptions_have_maximum() {
    for (count, status) in [(1024, 200), (1025, 400)] {
        let uris = vec![r#""a:""#; count].join(",");
        let params = format!(r#"{{"notifications":{{"resourceSubscriptions":[{uris}]}}}}"#);
        assert_eq!(gate("subscriptions/listen", &params).await.0, status, "{count}");
    }
}
