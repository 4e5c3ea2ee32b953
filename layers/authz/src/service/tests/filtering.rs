//! Tests of list filtering.

use vmcp_core::AlreadyFiltered;

use super::*;

const LIST: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[ {"name":"a","x":1.0} ,{"name":"secret"},{"name":"b"}],"nextCursor":"n"}}"#;
const SHOWN: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"a","x":1.0},{"name":"b"}],"nextCursor":"n"}}"#;

async fn list(response: impl Fn() -> Response<Body> + Clone + Send + 'static) -> StatusAndBody {
    send(&layer(), request("tools/list", "{}"), response).await
}

fn shown() -> StatusAndBody {
    (200, SHOWN.to_owned())
}

#[tokio::test]
async fn removes_hidden_items_and_keeps_other_bytes() {
    assert_eq!(list(|| json(LIST)).await, shown());
    let with_length = || {
        let mut response = content("Application/JSON; charset=utf-8", LIST);
        response.headers_mut().insert("content-length", LIST.len().into());
        response
    };
    assert_eq!(list(with_length).await, shown());
}

#[tokio::test]
async fn filters_each_kind_of_list() {
    for (method, member, key) in [
        ("prompts/list", "prompts", "name"),
        ("resources/list", "resources", "uri"),
        ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    ] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":7,"result":{{"{member}":[{{"{key}":"secret:"}},{{"{key}":"a:"}}]}}}}"#
        );
        let shown = body.replace(&format!(r#"{{"{key}":"secret:"}},"#), "");
        let answer = send(&layer(), request(method, "{}"), move || json(&body)).await;
        assert_eq!(answer, (200, shown));
    }
}

#[tokio::test]
async fn filters_lists_in_event_streams() {
    let head = "id: 1\nretry: 5\ndata: \n\n: hello\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n";
    let cut = LIST.replacen(' ', "\ndata: ", 1);
    let stream = format!("{head}id: 2\ndata: {cut}\n\ndata: {LIST}\n\n");
    let (status, body) = list(move || content("text/event-stream", &stream)).await;
    let expected = format!(
        "retry: 5\nid: 1\ndata: \n\nevent: message\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}}\n\nid: 2\ndata: {SHOWN}\n\n"
    );
    assert_eq!((status, body), (200, expected));
}

#[tokio::test]
async fn truncated_stream_keeps_its_events() {
    let stream = "id: 1\ndata: \n\n";
    let answer = list(move || content("text/event-stream", stream)).await;
    assert_eq!(answer, (200, stream.to_owned()));
}

#[tokio::test]
async fn malformed_lists_become_internal_errors() {
    let twice = format!("{LIST}{LIST}");
    let other_id = LIST.replace("\"id\":7", "\"id\":8");
    let event = format!("data: {}\n\n", LIST.replace("\"id\":7", "\"id\":8"));
    let unfinished = format!("data: {LIST}\n");
    let html = "<html>";
    for (kind, body) in [
        ("application/json", twice.as_str()),
        ("application/json", &other_id),
        ("application/json", html),
        ("application/json", &LIST[..LIST.len() - 1]),
        ("application/json", "[]"),
        ("application/json", r#"{"jsonrpc":"2.0","id":7,"method":"x"}"#),
        ("text/html", LIST),
        ("text/event-stream", &event),
        ("text/event-stream", &unfinished),
        ("text/event-stream", "data: <html>\n\n"),
        ("text/event-stream", LIST),
    ] {
        let owned = (kind.to_owned(), body.to_owned());
        let (status, answer) = list(move || content(&owned.0, &owned.1)).await;
        assert!(!answer.contains("secret"), "{kind} {body}: {answer}");
        assert_eq!(status, 500, "{kind} {body}: {answer}");
    }
    let compressed = || {
        let mut response = json(LIST);
        response.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
        response
    };
    assert_eq!(list(compressed).await.0, 500);
}

#[tokio::test]
async fn filters_duplicate_list_members() {
    let twice = r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[],"t\u006fols":[{"name":"secret"},{"name":"a"}]}}"#;
    let (_, body) = list(move || json(twice)).await;
    assert!(!body.contains("secret") && body.contains(r#"{"name":"a"}"#), "{body}");
}

#[tokio::test]
async fn drops_items_without_unique_name() {
    let odd = r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[1,{"name":"a","name":"b"},{"name":1},{},{"name":"c"}]}}"#;
    let (_, body) = list(move || json(odd)).await;
    assert_eq!(body, r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"c"}]}}"#);
}

#[tokio::test]
async fn forwards_errors_of_service() {
    let error = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"secret"}}"#;
    assert_eq!(list(move || json(error)).await, (200, error.to_owned()));
    let failed = || {
        let mut response = content("text/html", "down");
        *response.status_mut() = http::StatusCode::BAD_GATEWAY;
        response
    };
    assert_eq!(list(failed).await, (502, "down".to_owned()));
}

#[tokio::test]
async fn keeps_lists_marked_filtered() {
    let marked = || {
        let mut response = json(LIST);
        response.extensions_mut().insert(AlreadyFiltered);
        response
    };
    assert_eq!(list(marked).await, (200, LIST.to_owned()));
}

#[tokio::test]
async fn filters_lists_for_each_caller() {
    let by_name = AuthorizationLayer::new(|who: &Identity, item: &Item<'_>, _: Action<'_>| {
        if who.subject() == Some(item.name) { Decision::Allow } else { Decision::Hide }
    });
    for who in ["a", "b", "a"] {
        let mut request = request("tools/list", "{}");
        request.extensions_mut().insert(Identity::new("i", who));
        let (_, body) = send(&by_name, request, || json(LIST)).await;
        assert!(body.contains(&format!(r#""name":"{who}""#)), "{body}");
        assert_eq!(body.matches("name").count(), 1, "{body}");
    }
}
