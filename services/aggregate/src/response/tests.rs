use std::sync::Mutex;

use http_body::Frame;
use http_body_util::StreamBody;
use vmcp_core::{BudgetAccount, ByteBudget, Reservation};

use super::*;

const BOTH: [Generation; 2] = [Generation::Stateful, Generation::Stateless];

fn expected(backend: Generation) -> ExpectedResponse {
    let id = Bytes::from_static(b"7");
    ExpectedResponse {
        id: id.clone(),
        client_id: id,
        client: Generation::Stateless,
        backend,
        cacheable: false,
        buffered_results: BufferedResults::None,
        most: 1 << 20,
        request_context: None,
    }
}

#[tokio::test]
async fn accepts_credential_rejections_without_json_rpc() {
    for backend in [Generation::Stateless, Generation::Stateful] {
        for code in [401, 403, 407] {
            let status = StatusCode::from_u16(code).unwrap();
            for said in
                ["", r#"{"error":"invalid_token","error_description":"expired"}"#, "who are you?"]
            {
                let expected = expected(backend);
                let error = json(
                    status,
                    Body::from(Bytes::from(said)),
                    &expected,
                    ResponseBuffer::default(),
                )
                .await
                .unwrap_err();
                let known =
                    matches!(error.downcast_ref(), Some(BackendError::Status(it)) if *it == status);
                assert!(known, "{backend:?} {code} {said}: {error}");
                assert!(whole(status, Bytes::from(said), &expected).is_err());
            }
        }
        // A response to the request takes precedence, and other statuses do not concern credentials.
        let denied = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32001,"message":"not you"}}"#;
        let told = json(
            StatusCode::FORBIDDEN,
            Body::from(Bytes::from(denied)),
            &expected(backend),
            ResponseBuffer::default(),
        )
        .await;
        assert!(matches!(told, Ok(AdaptedResponse::Ready(_))), "{backend:?}: {told:?}");
        let told = json(
            StatusCode::BAD_REQUEST,
            Body::from(Bytes::new()),
            &expected(backend),
            ResponseBuffer::default(),
        )
        .await;
        let told = told.unwrap_err();
        assert!(!matches!(told.downcast_ref(), Some(BackendError::Status(_))), "{told}");
    }
}

/// Creates a body without a length that consists of these frames, like a chunked HTTP body.
fn frames(frames: &[&str]) -> Body {
    let frames: Vec<_> = frames
        .iter()
        .map(|frame| Ok::<_, BoxError>(Frame::data(Bytes::copy_from_slice(frame.as_bytes()))))
        .collect();
    Body::wrap(StreamBody::new(futures_util::stream::iter(frames)))
}

#[tokio::test]
async fn buffers_continuations_in_any_chunking() {
    const INPUT: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required","inputRequests":{},"requestState":"raw"}}"#;
    const TASK: &str = r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"task","taskId":"raw","status":"working"}}"#;
    for (client, message) in BOTH.into_iter().flat_map(|client| [(client, INPUT), (client, TASK)]) {
        let buffered_results = BufferedResults::Continuations;
        let expected =
            ExpectedResponse { client, buffered_results, ..expected(Generation::Stateless) };
        for at in 0..=message.len() {
            let (first, second) = message.split_at(at);
            let pieces = [first, second];
            let said: &[&str] = if second.is_empty() { &pieces[..1] } else { &pieces };
            let shaped = json(StatusCode::OK, frames(said), &expected, ResponseBuffer::default())
                .await
                .unwrap();
            match shaped {
                AdaptedResponse::InputRequired(held) if message == INPUT => assert_eq!(held, INPUT),
                AdaptedResponse::Task(held) if message == TASK => assert_eq!(held, TASK),
                passed => panic!("{client:?} {at}: {passed:?}"),
            }
        }
    }
}

/// Creates a body that fails after these bytes.
fn broken(begun: &str) -> Body {
    let begun = Ok(Frame::data(Bytes::copy_from_slice(begun.as_bytes())));
    let frames = [begun, Err(BoxError::from("reset"))];
    Body::wrap(StreamBody::new(futures_util::stream::iter(frames)))
}

#[tokio::test]
async fn truncated_short_responses_become_errors() {
    let begun = r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":["#;
    for buffered_results in [BufferedResults::None, BufferedResults::Continuations] {
        let expected = ExpectedResponse { buffered_results, ..expected(Generation::Stateless) };
        json(StatusCode::OK, broken(begun), &expected, ResponseBuffer::default())
            .await
            .unwrap_err();
        // A long response is streamed before it is complete, and fails midway too.
        let long = format!("{begun}\"{}", "x".repeat(PREFIX_BYTES));
        let shaped = json(StatusCode::OK, broken(&long), &expected, ResponseBuffer::default())
            .await
            .unwrap();
        let AdaptedResponse::Ready(response) = shaped else { panic!("held") };
        let mut body = response.into_body();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), long);
        body.frame().await.unwrap().unwrap_err();
    }
}

#[tokio::test]
async fn buffers_all_results_but_no_errors() {
    let expected = ExpectedResponse {
        buffered_results: BufferedResults::All,
        ..expected(Generation::Stateless)
    };
    let begun = r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","taskId":"raw""#;
    let shaped = json(StatusCode::OK, frames(&[begun, "}}"]), &expected, ResponseBuffer::default())
        .await
        .unwrap();
    let AdaptedResponse::Whole(message) = shaped else { panic!("{shaped:?}") };
    assert_eq!(message, format!("{begun}}}}}"));
    let unknown = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"unknown"}}"#;
    let AdaptedResponse::Ready(response) = event(unknown.into(), &expected).unwrap() else {
        panic!()
    };
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn maps_error_page_of_proxy_to_status() {
    for backend in BOTH {
        for client in BOTH {
            for said in [r#"{"error":"upstream down"}"#, "{}", "", r#""down""#, "<html>"] {
                let expected = ExpectedResponse { client, ..expected(backend) };
                let status = StatusCode::SERVICE_UNAVAILABLE;
                let error = json(status, Body::from(said), &expected, ResponseBuffer::default())
                    .await
                    .unwrap_err();
                let known =
                    matches!(error.downcast_ref(), Some(BackendError::Status(it)) if *it == status);
                assert!(known, "{backend:?} {client:?} {said}: {error}");
            }
        }
    }
}

/// Request whose responses are buffered.
struct BufferedPrefix {
    budget: ByteBudget,
    counts: Mutex<Vec<Reservation>>,
}

impl ReservationHolder for BufferedPrefix {
    fn account(&self) -> Option<BudgetAccount> {
        Some(self.budget.account(self.budget.backend("a")))
    }

    fn hold(&self, count: Reservation) {
        self.counts.lock().unwrap().push(count);
    }
}

#[tokio::test(start_paused = true)]
async fn charges_buffered_responses_to_budget() {
    let budget = ByteBudget::new(2_000_000);
    let request = BufferedPrefix { budget: budget.clone(), counts: Mutex::default() };
    let room = ResponseBuffer::new(&request);
    let expected = ExpectedResponse {
        buffered_results: BufferedResults::All,
        ..expected(Generation::Stateless)
    };
    let said = |bytes: usize| {
        let text =
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"a":"{}"}}}}"#, "x".repeat(bytes));
        let pieces: Vec<_> = text.as_bytes().chunks(10_000).collect();
        frames(&pieces.iter().map(|it| std::str::from_utf8(it).unwrap()).collect::<Vec<_>>())
    };
    let answer = |bytes| json(StatusCode::OK, said(bytes), &expected, room);
    let AdaptedResponse::Whole(small) = answer(50_000).await.unwrap() else { panic!("not held") };
    assert_eq!(budget.counts().held, 0);
    let AdaptedResponse::Whole(large) = answer(900_000).await.unwrap() else { panic!("not held") };
    assert!(budget.counts().held >= 900_000, "as long as its request");
    let error = answer(900_000).await.unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(BackendError::NoRoom)), "half of it: {error}");
    assert_eq!(budget.counts().rejections, 1);
    drop((small, large));
    request.counts.lock().unwrap().clear();
    assert_eq!(budget.counts().held, 0);
    assert!(answer(900_000).await.is_ok());
}

#[tokio::test]
async fn edited_long_responses_keep_budget_count() {
    let budget = ByteBudget::new(1 << 20);
    let expected =
        ExpectedResponse { client_id: "\"own\"".into(), ..expected(Generation::Stateful) };
    let text = "x".repeat(100_000);
    let said = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":"{text}"}}}}"#);
    let mut count = budget.open(budget.backend("a"));
    count.try_grow(said.len()).unwrap();
    let body = Body::from(count.attach(said.into_bytes()));
    let shaped = json(StatusCode::OK, body, &expected, ResponseBuffer::default()).await.unwrap();
    let AdaptedResponse::Ready(response) = shaped else { panic!("not ready") };
    assert!(budget.counts().held > 100_000);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let wanted = format!(
        r#"{{"jsonrpc":"2.0","id":"own","result":{{"content":"{text}","resultType":"complete"}}}}"#
    );
    assert_eq!((body, budget.counts().held), (wanted.into(), 0));
}
