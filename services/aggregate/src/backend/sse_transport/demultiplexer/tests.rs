use futures_util::FutureExt;

use super::*;
use crate::backend::sse_transport::event_body::UnsolicitedMessages;

fn enter(
    demultiplexer: &Demultiplexer,
    message: &'static str,
    timeout_control: Option<TimeoutControl>,
) -> Result<Arc<MessageQueue>, EnqueueError> {
    let message = Bytes::from_static(message.as_bytes());
    let Ok(Envelope::Request { id, method, params }) = scan(&message) else {
        panic!("{message:?}")
    };
    demultiplexer.enter(&message, id, &method.read(&message), &params, timeout_control)
}

fn call(demultiplexer: &Demultiplexer, message: &'static str) -> Arc<MessageQueue> {
    enter(demultiplexer, message, None).unwrap()
}

fn take(demultiplexer: &Demultiplexer, message: &'static str) -> Option<Bytes> {
    demultiplexer.dispatch(Bytes::from_static(message.as_bytes()))
}

/// Returns the queued messages and `true` if the queue has ended.
fn content(queue: &Arc<MessageQueue>) -> (Vec<String>, bool) {
    let mut reading = queue.read();
    let mut messages = Vec::new();
    loop {
        match reading.next().now_or_never() {
            None => return (messages, false),
            Some(None) => return (messages, true),
            Some(Some(item)) => {
                messages.push(String::from_utf8(item.message.to_vec()).unwrap());
            }
        }
    }
}

const ONE: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":"p"}}}"#;
const TWO: &str =
    r#"{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"_meta":{"progressToken":7}}}"#;
const LIST: &str = r#"{"jsonrpc":"2.0","id":9,"method":"tools/list"}"#;
const QUESTION: &str = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}"#;

#[test]
fn routes_responses_by_id_and_id_type() {
    let demultiplexer = Demultiplexer::default();
    let (one, two) = (call(&demultiplexer, ONE), call(&demultiplexer, TWO));
    assert_eq!(take(&demultiplexer, r#"{"jsonrpc":"2.0","id":"1","result":{}}"#), None);
    assert_eq!(content(&two), (vec![r#"{"jsonrpc":"2.0","id":"1","result":{}}"#.to_owned()], true));
    assert_eq!(content(&one), (vec![], false));
    assert_eq!(take(&demultiplexer, r#"{"jsonrpc":"2.0","id":5,"result":{}}"#), None);
    assert_eq!(content(&one), (vec![], false));
    assert_eq!(content(&demultiplexer.standing), (vec![], false));
}

#[test]
fn routes_error_without_id_to_only_request() {
    let demultiplexer = Demultiplexer::default();
    let one = call(&demultiplexer, ONE);
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#;
    take(&demultiplexer, error);
    assert_eq!(content(&one), (vec![error.to_owned()], true));
}

#[test]
fn routes_progress_by_token() {
    let demultiplexer = Demultiplexer::default();
    let (one, two) = (call(&demultiplexer, ONE), call(&demultiplexer, TWO));
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}"#;
    take(&demultiplexer, progress);
    take(&demultiplexer, &progress.replace('7', "8").leak()[..]);
    assert_eq!(content(&two), (vec![progress.to_owned()], false));
    assert_eq!(content(&one), (vec![], false));
}

#[test]
fn routes_server_request_to_only_call_or_listener() {
    let demultiplexer = Demultiplexer::default();
    let list = call(&demultiplexer, LIST);
    take(&demultiplexer, QUESTION);
    assert_eq!(content(&demultiplexer.standing), (vec![QUESTION.to_owned()], false));
    let one = call(&demultiplexer, ONE);
    take(&demultiplexer, QUESTION);
    assert_eq!(content(&one), (vec![QUESTION.to_owned()], false));
    let two = call(&demultiplexer, TWO);
    take(&demultiplexer, QUESTION);
    assert_eq!(content(&two), (vec![QUESTION.to_owned()], false));
    let mut listening = demultiplexer.standing.read();
    take(&demultiplexer, QUESTION);
    assert_eq!(listening.next().now_or_never().unwrap().unwrap().message, QUESTION);
    assert_eq!(content(&list), (vec![], false));
}

#[test]
fn answers_ping_directly() {
    let demultiplexer = Demultiplexer::default();
    let pong = take(&demultiplexer, r#"{"jsonrpc":"2.0","id":"x","method":"ping"}"#).unwrap();
    assert_eq!(pong, r#"{"jsonrpc":"2.0","id":"x","result":{}}"#);
}

#[tokio::test]
async fn drops_server_request_when_call_ends() {
    let (demultiplexer, timeout_control) = (Demultiplexer::default(), TimeoutControl::new());
    for end in ["answer", "cancellation", "departure"] {
        let one = call(&demultiplexer, ONE);
        let _reading = one.read();
        take(&demultiplexer, QUESTION);
        let two = enter(&demultiplexer, TWO, Some(timeout_control.clone())).unwrap();
        // The server request was sent for the first call but may belong to the second.
        let mut state = demultiplexer.lock();
        let server_request = PendingServerRequest {
            id: Bytes::from_static(b"\"r\""),
            queue: Arc::clone(&one),
            _pauses: vec![timeout_control.pause()],
        };
        state.server_requests.push(server_request);
        drop(state);
        match end {
            "answer" => _ = take(&demultiplexer, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            "cancellation" => demultiplexer.cancel(b"1"),
            _ => demultiplexer.leave(b"1", &one),
        }
        assert!(demultiplexer.lock().server_requests.is_empty(), "{end}");
        demultiplexer.leave(b"\"1\"", &two);
    }
}

#[test]
fn server_request_ends_with_notification_reader() {
    let (demultiplexer, timeout_control) =
        (Arc::new(Demultiplexer::default()), TimeoutControl::new());
    for message in [ONE, TWO] {
        enter(&demultiplexer, message, Some(timeout_control.clone())).unwrap();
    }
    let (first, second) =
        (UnsolicitedMessages::new(&demultiplexer), UnsolicitedMessages::new(&demultiplexer));
    take(&demultiplexer, QUESTION);
    drop(first);
    assert_eq!(demultiplexer.lock().server_requests.len(), 1);
    drop(second);
    assert!(demultiplexer.lock().server_requests.is_empty());
}

#[test]
fn rejects_server_request_when_queue_is_full() {
    let demultiplexer = Demultiplexer::default();
    while demultiplexer.dispatch(QUESTION.into()).is_none() {}
    let rejection = take(&demultiplexer, QUESTION).unwrap();
    assert!(rejection.starts_with(br#"{"jsonrpc":"2.0","id":"q","error":{"code":-32603"#));
}

#[test]
fn ignores_malformed_messages() {
    let demultiplexer = Demultiplexer::default();
    let one = call(&demultiplexer, ONE);
    for garbage in ["garbage", "[]", "{}", r#"{"jsonrpc":"2.0","id":1}"#] {
        assert_eq!(take(&demultiplexer, garbage), None);
    }
    assert_eq!(content(&one), (vec![], false));
}

#[test]
fn close_ends_all_pending_calls() {
    let demultiplexer = Demultiplexer::default();
    let one = call(&demultiplexer, ONE);
    demultiplexer.close();
    assert_eq!(content(&one), (vec![], true));
    assert_eq!(content(&demultiplexer.standing), (vec![], true));
    assert_eq!(enter(&demultiplexer, TWO, None).unwrap_err(), EnqueueError::Closed);
}

#[test]
fn rejects_second_request_with_same_id() {
    let demultiplexer = Demultiplexer::default();
    let one = call(&demultiplexer, ONE);
    assert_eq!(enter(&demultiplexer, ONE, None).unwrap_err(), EnqueueError::Full);
    demultiplexer.leave(b"1", &one);
    assert!(enter(&demultiplexer, ONE, None).is_ok());
}

#[test]
fn limits_pending_requests() {
    let demultiplexer = Demultiplexer::default();
    for id in 0..MAX_PENDING_REQUESTS {
        call(
            &demultiplexer,
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#).leak(),
        );
    }
    assert_eq!(enter(&demultiplexer, TWO, None).unwrap_err(), EnqueueError::Full);
}
