//! What is cut out of the lists of a service that doesn't ask.

use vmcp_core::Filtered;

use super::*;

const LIST: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[ {"name":"a","x":1.0} ,{"name":"secret"},{"name":"b"}],"nextCursor":"n"}}"#;
const SHOWN: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"a","x":1.0},{"name":"b"}],"nextCursor":"n"}}"#;

async fn list(response: impl Fn() -> Response<Body> + Clone + Send + 'static) -> Answer {
    ask(&layer(), request("tools/list", "{}"), response).await
}

fn shown() -> Answer {
    (200, SHOWN.to_owned())
}

#[tokio::test]
async fn hidden_items_are_cut_out_and_the_rest_stays_as_written() {
    assert_eq!(list(|| json(LIST)).await, shown());
    let with_length = || {
        let mut response = content("Application/JSON; charset=utf-8", LIST);
        response.headers_mut().insert("content-length", LIST.len().into());
        response
    };
    assert_eq!(list(with_length).await, shown());
}

#[tokio::test]
async fn each_kind_of_list_is_filtered() {
    for (method, member, key) in [
        ("prompts/list", "prompts", "name"),
        ("resources/list", "resources", "uri"),
        ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    ] {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":7,"result":{{"{member}":[{{"{key}":"secret:"}},{{"{key}":"a:"}}]}}}}"#
        );
        let shown = body.replace(&format!(r#"{{"{key}":"secret:"}},"#), "");
        let answer = ask(&layer(), request(method, "{}"), move || json(&body)).await;
        assert_eq!(answer, (200, shown));
    }
}

#[tokio::test]
async fn a_list_within_an_event_stream_is_filtered() {
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
async fn a_stream_that_ends_before_its_answer_shows_what_it_had() {
    let stream = "id: 1\ndata: \n\n";
    let answer = list(move || content("text/event-stream", stream)).await;
    assert_eq!(answer, (200, stream.to_owned()));
}

#[tokio::test]
async fn what_cannot_be_taken_apart_cleanly_is_an_internal_error() {
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
async fn a_second_list_of_the_same_name_is_filtered_too() {
    let twice = r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[],"t\u006fols":[{"name":"secret"},{"name":"a"}]}}"#;
    let (_, body) = list(move || json(twice)).await;
    assert!(!body.contains("secret") && body.contains(r#"{"name":"a"}"#), "{body}");
}

#[tokio::test]
async fn items_without_one_clear_name_are_left_out() {
    let odd = r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[1,{"name":"a","name":"b"},{"name":1},{},{"name":"c"}]}}"#;
    let (_, body) = list(move || json(odd)).await;
    assert_eq!(body, r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"c"}]}}"#);
}

#[tokio::test]
async fn errors_of_the_service_pass() {
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
async fn a_list_that_was_made_by_the_admission_is_left_alone() {
    let marked = || {
        let mut response = json(LIST);
        response.extensions_mut().insert(Filtered);
        response
    };
    assert_eq!(list(marked).await, (200, LIST.to_owned()));
}

#[tokio::test]
async fn two_callers_of_one_service_see_each_their_own() {
    let by_name = AuthorizeLayer::new(|who: &Identity, item: &Item<'_>, _: Purpose<'_>| {
        if who.subject() == Some(item.name) { Verdict::Permitted } else { Verdict::Hidden }
    });
    for who in ["a", "b", "a"] {
        let mut request = request("tools/list", "{}");
        request.extensions_mut().insert(Identity::new("i", who));
        let (_, body) = ask(&by_name, request, || json(LIST)).await;
        assert!(body.contains(&format!(r#""name":"{who}""#)), "{body}");
        assert_eq!(body.matches("name").count(), 1, "{body}");
    }
}
