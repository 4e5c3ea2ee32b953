//! `/api/workflows`: the runs of the caller.

use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use vmcp_test_support::mcp_backend::Protocol;
use vmcp_tests::authority::Authority;
use vmcp_tests::caller::{Caller, Line};
use vmcp_tests::counterparts::{Gateway, Reply};

use super::{backend, calls, sections, start};
use crate::common::{config, ready, until};

const AUDIENCE: &str = "http://localhost/mcp";

async fn request(gateway: &Gateway, method: Method, path: &str, token: Option<&str>) -> Reply {
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    Line::to(gateway.url()).send(method, path, &headers, "").await.unwrap()
}

async fn get(gateway: &Gateway, path: &str, token: &str) -> Value {
    let reply = request(gateway, Method::GET, path, Some(token)).await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    reply.message().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn users_see_only_their_own_runs() {
    let a = backend("a", Protocol::Stateless).start();
    let authority = Authority::start().unwrap();
    let tools = json!([
        {"name": "asks", "steps": [
            {"id": "each", "type": "forEach", "collection": "[1,2]",
             "step": {"tool": "a.echo", "arguments": {"text": "secret"}}},
            {"id": "ask", "type": "elicitation", "dependsOn": ["each"], "message": "Go on?",
             "schema": {"type": "object", "properties": {}}},
            {"id": "end", "tool": "a.fail", "dependsOn": ["ask"]},
        ]},
        {"name": "hangs", "steps": [{"id": "s", "tool": "a.hang"}]},
    ]);
    let yaml = config([("a", a.url())], &sections(&tools));
    let section = authority.section(AUDIENCE);
    let gateway = ready(&yaml.replace("incomingAuth: {type: anonymous}\n", &section)).await;
    let [ann, bob] = ["ann", "bob"].map(|user| authority.token(user, AUDIENCE, 1));
    let mut caller = Caller::stateless_with(gateway.url(), json!({"elicitation": {"form": {}}}));
    caller.comes_with(&ann);
    let asked = caller.call("asks", json!({})).await.unwrap();
    assert_eq!(asked["resultType"], "input_required");

    let list = get(&gateway, "/api/workflows", &ann).await;
    let [run] = &list["runs"].as_array().unwrap()[..] else { panic!("one run: {list}") };
    assert_eq!((&run["workflow"], &run["status"]), (&json!("asks"), &json!("input_required")));
    let path = format!("/api/workflows/{}", run["id"].as_str().unwrap());
    let shown = get(&gateway, &path, &ann).await;
    let steps: Vec<_> = shown["steps"].as_array().unwrap().iter().collect();
    let statuses: Vec<_> = steps.iter().map(|step| (&step["id"], &step["status"])).collect();
    let expected = [("each", "completed"), ("ask", "input_required"), ("end", "pending")];
    assert_eq!(
        statuses,
        expected.map(|(id, status)| (json!(id), json!(status))).each_ref().map(|(a, b)| (a, b))
    );
    assert_eq!(steps[1]["question"], "Go on?");
    assert!(steps[0]["started_at"].as_str().unwrap().ends_with('Z'), "{shown}");
    assert!(!shown.to_string().contains("secret"), "results are for the client: {shown}");

    assert_eq!(get(&gateway, "/api/workflows", &bob).await, json!({"runs": []}));
    let foreign = request(&gateway, Method::GET, &path, Some(&bob)).await;
    let unknown = request(&gateway, Method::GET, "/api/workflows/x", Some(&bob)).await;
    assert_eq!((foreign.status, &foreign.body), (StatusCode::NOT_FOUND, &unknown.body));
    let refused = request(&gateway, Method::GET, &path, None).await;
    assert_eq!(refused.status, StatusCode::UNAUTHORIZED);
    assert!(refused.headers.contains_key("www-authenticate"), "{refused:?}");
    let posted = request(&gateway, Method::POST, &path, Some(&ann)).await;
    assert_eq!(posted.status, StatusCode::METHOD_NOT_ALLOWED);

    let answers = json!({"ask": {"action": "accept", "content": {}}});
    let params = json!({"name": "asks", "arguments": {}, "requestState": asked["requestState"],
        "inputResponses": answers});
    assert_eq!(caller.result("tools/call", params).await.unwrap()["isError"], true);
    let shown = get(&gateway, &path, &ann).await;
    assert_eq!((&shown["status"], &shown["error"]["step"]), (&json!("failed"), &json!("end")));
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_runs_stay_visible_with_times() {
    let a = backend("a", Protocol::Stateless).start();
    let authority = Authority::start().unwrap();
    let tools = json!([
        {"name": "echoes", "steps": [{"id": "s", "tool": "a.echo", "arguments": {"text": "secret"}}]},
        {"name": "fails", "steps": [
            {"id": "broken", "tool": "a.fail"}, {"id": "never", "tool": "a.echo", "dependsOn": ["broken"]},
        ]},
    ]);
    let yaml = config([("a", a.url())], &sections(&tools));
    let section = authority.section(AUDIENCE);
    let gateway = ready(&yaml.replace("incomingAuth: {type: anonymous}\n", &section)).await;
    let ann = authority.token("ann", AUDIENCE, 1);
    let mut caller = Caller::stateless_as(gateway.url(), &ann);
    for tool in ["echoes", "fails"] {
        caller.call(tool, json!({})).await.unwrap();
    }
    let list = get(&gateway, "/api/workflows", &ann).await;
    let runs = list["runs"].as_array().unwrap();
    let found: Vec<_> = runs.iter().map(|run| (&run["workflow"], &run["status"])).collect();
    let expected =
        [("fails", "failed"), ("echoes", "completed")].map(|(a, b)| (json!(a), json!(b)));
    assert_eq!(found, expected.each_ref().map(|(a, b)| (a, b)), "the newest first");
    let has_times = |it: &Value| {
        let (start, end) = (it["started_at"].as_str().unwrap(), it["ended_at"].as_str().unwrap());
        start <= end && it["duration_ms"].is_u64()
    };
    assert!(runs.iter().all(has_times), "{list}");
    let shown = async |run: &Value| {
        get(&gateway, &format!("/api/workflows/{}", run["id"].as_str().unwrap()), &ann).await
    };
    let (failed, completed) = (shown(&runs[0]).await, shown(&runs[1]).await);
    assert!(has_times(&failed) && has_times(&completed["steps"][0]), "{failed} {completed}");
    assert!(!completed.to_string().contains("secret"), "{completed}");
    let [broken, never] = &failed["steps"].as_array().unwrap()[..] else { panic!("{failed}") };
    assert_eq!((&broken["status"], &never["status"]), (&json!("failed"), &json!("not_started")));
    assert!(broken["error"].as_str().unwrap().contains("it broke"), "{broken}");

    let newest = get(&gateway, "/api/workflows?limit=1", &ann).await;
    assert_eq!(newest["runs"], json!([runs[0]]));
    for limit in ["0", "1001", "x"] {
        let path = format!("/api/workflows?limit={limit}");
        let refused = request(&gateway, Method::GET, &path, Some(&ann)).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_of_lost_client_is_interrupted() {
    let a = backend("a", Protocol::Stateless).start();
    let authority = Authority::start().unwrap();
    let tools = json!([{"name": "hangs", "steps": [{"id": "s", "tool": "a.hang"}]}]);
    let yaml = config([("a", a.url())], &sections(&tools));
    let section = authority.section(AUDIENCE);
    let gateway = ready(&yaml.replace("incomingAuth: {type: anonymous}\n", &section)).await;
    let token = authority.token("ann", AUDIENCE, 1);
    let mut caller = Caller::stateless_as(gateway.url(), &token);
    let message = caller.request("tools/call", json!({"name": "hangs"}));
    let headers = caller.headers(&message);
    let mut line = Line::to(gateway.url());
    let call = tokio::spawn(async move { line.post(&headers, &message).await });
    until("the step runs", async || calls(&a, "hang").len() == 1).await;
    let list = get(&gateway, "/api/workflows", &token).await;
    assert_eq!(list["runs"][0]["status"], "running", "{list}");
    call.abort();
    until("the run is interrupted", async || {
        get(&gateway, "/api/workflows", &token).await["runs"][0]["status"] == "interrupted"
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn anonymous_callers_see_no_runs() {
    let a = backend("a", Protocol::Stateless).start();
    let gateway = start(&[&a], json!([])).await;
    for path in ["/api/workflows", "/api/workflows/x"] {
        let reply = request(&gateway, Method::GET, path, None).await;
        assert_eq!(reply.status, StatusCode::FORBIDDEN, "{reply:?}");
    }
}
