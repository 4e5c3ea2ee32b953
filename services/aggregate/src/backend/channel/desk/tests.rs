use futures_util::FutureExt;

use super::super::body::Standing;
use super::*;

fn enter(
    desk: &Desk,
    message: &'static str,
    hold: Option<TimeoutControl>,
) -> Result<Arc<Inbox>, NoPlace> {
    let message = Bytes::from_static(message.as_bytes());
    let Ok(Envelope::Request { id, method, params }) = scan(&message) else {
        panic!("{message:?}")
    };
    desk.enter(&message, id, &method.read(&message), &params, hold)
}

fn call(desk: &Desk, message: &'static str) -> Arc<Inbox> {
    enter(desk, message, None).unwrap()
}

fn take(desk: &Desk, message: &'static str) -> Option<Bytes> {
    desk.take(Bytes::from_static(message.as_bytes()))
}

/// Returns the queued messages and `true` if the queue has ended.
fn content(inbox: &Arc<Inbox>) -> (Vec<String>, bool) {
    let mut reading = inbox.read();
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
fn answers_go_by_id_and_a_number_is_no_string() {
    let desk = Desk::default();
    let (one, two) = (call(&desk, ONE), call(&desk, TWO));
    assert_eq!(take(&desk, r#"{"jsonrpc":"2.0","id":"1","result":{}}"#), None);
    assert_eq!(content(&two), (vec![r#"{"jsonrpc":"2.0","id":"1","result":{}}"#.to_owned()], true));
    assert_eq!(content(&one), (vec![], false));
    assert_eq!(take(&desk, r#"{"jsonrpc":"2.0","id":5,"result":{}}"#), None);
    assert_eq!(content(&one), (vec![], false));
    assert_eq!(content(&desk.standing), (vec![], false));
}

#[test]
fn an_error_without_an_id_answers_the_only_request() {
    let desk = Desk::default();
    let one = call(&desk, ONE);
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}"#;
    take(&desk, error);
    assert_eq!(content(&one), (vec![error.to_owned()], true));
}

#[test]
fn progress_goes_by_token() {
    let desk = Desk::default();
    let (one, two) = (call(&desk, ONE), call(&desk, TWO));
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}"#;
    take(&desk, progress);
    take(&desk, &progress.replace('7', "8").leak()[..]);
    assert_eq!(content(&two), (vec![progress.to_owned()], false));
    assert_eq!(content(&one), (vec![], false));
}

#[test]
fn a_question_goes_to_the_only_call_and_else_to_the_listener() {
    let desk = Desk::default();
    let list = call(&desk, LIST);
    take(&desk, QUESTION);
    assert_eq!(content(&desk.standing), (vec![QUESTION.to_owned()], false));
    let one = call(&desk, ONE);
    take(&desk, QUESTION);
    assert_eq!(content(&one), (vec![QUESTION.to_owned()], false));
    let two = call(&desk, TWO);
    take(&desk, QUESTION);
    assert_eq!(content(&two), (vec![QUESTION.to_owned()], false));
    let mut listening = desk.standing.read();
    take(&desk, QUESTION);
    assert_eq!(listening.next().now_or_never().unwrap().unwrap().message, QUESTION);
    assert_eq!(content(&list), (vec![], false));
}

#[test]
fn a_ping_is_answered_here() {
    let desk = Desk::default();
    let pong = take(&desk, r#"{"jsonrpc":"2.0","id":"x","method":"ping"}"#).unwrap();
    assert_eq!(pong, r#"{"jsonrpc":"2.0","id":"x","result":{}}"#);
}

#[tokio::test]
async fn question_ends_with_the_call_it_was_asked_for() {
    let (desk, hold) = (Desk::default(), TimeoutControl::new());
    for end in ["answer", "cancellation", "departure"] {
        let one = call(&desk, ONE);
        let _reading = one.read();
        take(&desk, QUESTION);
        let two = enter(&desk, TWO, Some(hold.clone())).unwrap();
        // The server request was sent for the first call but may belong to the second.
        let mut state = desk.lock();
        let question = Question {
            id: Bytes::from_static(b"\"r\""),
            inbox: Arc::clone(&one),
            _pauses: vec![hold.pause()],
        };
        state.questions.push(question);
        drop(state);
        match end {
            "answer" => _ = take(&desk, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
            "cancellation" => desk.cancelled(b"1"),
            _ => desk.leave(b"1", &one),
        }
        assert!(desk.lock().questions.is_empty(), "{end}");
        desk.leave(b"\"1\"", &two);
    }
}

#[test]
fn question_ends_with_the_standing_reader() {
    let (desk, hold) = (Arc::new(Desk::default()), TimeoutControl::new());
    for message in [ONE, TWO] {
        enter(&desk, message, Some(hold.clone())).unwrap();
    }
    let (first, second) = (Standing::new(&desk), Standing::new(&desk));
    take(&desk, QUESTION);
    drop(first);
    assert_eq!(desk.lock().questions.len(), 1);
    drop(second);
    assert!(desk.lock().questions.is_empty());
}

#[test]
fn a_question_nobody_has_room_for_is_refused() {
    let desk = Desk::default();
    while desk.take(QUESTION.into()).is_none() {}
    let refusal = take(&desk, QUESTION).unwrap();
    assert!(refusal.starts_with(br#"{"jsonrpc":"2.0","id":"q","error":{"code":-32603"#));
}

#[test]
fn what_is_no_message_is_passed_over() {
    let desk = Desk::default();
    let one = call(&desk, ONE);
    for garbage in ["garbage", "[]", "{}", r#"{"jsonrpc":"2.0","id":1}"#] {
        assert_eq!(take(&desk, garbage), None);
    }
    assert_eq!(content(&one), (vec![], false));
}

#[test]
fn the_end_ends_everything_that_waits() {
    let desk = Desk::default();
    let one = call(&desk, ONE);
    desk.close();
    assert_eq!(content(&one), (vec![], true));
    assert_eq!(content(&desk.standing), (vec![], true));
    assert_eq!(enter(&desk, TWO, None).unwrap_err(), NoPlace::Over);
}

#[test]
fn a_second_request_with_the_same_id_has_no_place() {
    let desk = Desk::default();
    let one = call(&desk, ONE);
    assert_eq!(enter(&desk, ONE, None).unwrap_err(), NoPlace::Full);
    desk.leave(b"1", &one);
    assert!(enter(&desk, ONE, None).is_ok());
}

#[test]
fn only_so_many_requests_wait() {
    let desk = Desk::default();
    for id in 0..MOST_WAITING {
        call(&desk, format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#).leak());
    }
    assert_eq!(enter(&desk, TWO, None).unwrap_err(), NoPlace::Full);
}
