use http::header::CONTENT_TYPE;
use proptest::prelude::*;

use super::*;

const ERROR: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no \"such\" thing: Bearer c4n4ry","data":{}}}"#;
const TOOL: &str =
    r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}],"isError":true}}"#;
const GOOD: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"\"isError\":true"}],"isError":false}}"#;
const PROGRESS: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":2}}"#;
const QUESTION: &str = r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}"#;

fn detector(media: &'static str) -> Detector {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, media.parse().unwrap());
    Detector::new(&headers).unwrap()
}

fn found(media: &'static str, text: &str, size: usize) -> Finding {
    let mut detector = detector(media);
    let pieces: Vec<_> = text.as_bytes().chunks(size).collect();
    for (index, piece) in pieces.iter().enumerate() {
        detector.look(&Bytes::copy_from_slice(piece), index + 1 == pieces.len());
    }
    detector.end()
}

fn json(text: &str) -> Finding {
    found("application/json; charset=utf-8", text, usize::MAX)
}

fn rpc() -> ApplicationError {
    let message = Some(Data::new(b"no \"such\" thing: Bearer c4n4ry", MAX_MESSAGE));
    ApplicationError::Rpc { code: Some(-32000), message }
}

#[test]
fn an_error_in_a_json_body_is_found_with_code_and_message() {
    assert_eq!(json(ERROR).error, Some(rpc()));
    assert_eq!(json(TOOL).error, Some(ApplicationError::Tool));
    assert_eq!(json(GOOD), Finding { answered: true, error: None });
    assert_eq!(json("<html>").error, None);
}

#[test]
fn an_error_is_found_although_more_follows_than_is_looked_at() {
    let long = ERROR.replace("\"data\":{}", &format!("\"data\":\"{}\"", "x".repeat(99_999)));
    assert_eq!(json(&long).error, Some(rpc()));
    assert_eq!(found("application/json", &long, 7).error, Some(rpc()));
    let hidden = format!("{{{}{}", " ".repeat(WINDOW), ERROR.get(1..).unwrap());
    assert_eq!(json(&hidden).error, None);
}

#[test]
fn a_long_message_is_cut() {
    let long = ERROR.replace("no ", &"\u{e9}".repeat(999));
    let Some(ApplicationError::Rpc { message, .. }) = json(&long).error else { panic!() };
    assert_eq!(message.unwrap().start.len(), MAX_MESSAGE);
}

#[test]
fn in_a_stream_the_answer_counts_and_not_what_goes_before() {
    let stream = format!("data: {PROGRESS}\n\nid: 7\ndata: {QUESTION}\n\ndata: {ERROR}\n\n");
    for size in [1, 5, 64, 9999] {
        assert_eq!(found("text/event-stream", &stream, size).error, Some(rpc()));
    }
    let unanswered = format!("data: {PROGRESS}\n\n");
    assert_eq!(found("text/event-stream", &unanswered, 9), Finding::default());
}

#[test]
fn nothing_is_kept_of_an_answer_but_its_beginning() {
    let mut detector = detector("application/json");
    for _ in 0..1000 {
        detector.look(&Bytes::from(vec![b' '; 1000]), false);
        if let Detector::Json(kept) = &detector {
            assert!(kept.len() <= WINDOW);
        }
    }
    assert!(matches!(detector, Detector::Done(_)));
}

#[test]
fn other_media_are_not_looked_at() {
    let mut headers = HeaderMap::new();
    assert!(Detector::new(&headers).is_none());
    headers.insert(CONTENT_TYPE, "text/html".parse().unwrap());
    assert!(Detector::new(&headers).is_none());
}

proptest! {
    #[test]
    fn what_is_found_does_not_depend_on_the_pieces(
        size in 1_usize..60,
        text in prop_oneof![Just(ERROR), Just(TOOL), Just(GOOD), Just(PROGRESS)],
    ) {
        prop_assert_eq!(found("application/json", text, size), json(text));
        let stream = format!("data: {text}\n\n");
        prop_assert_eq!(found("text/event-stream", &stream, size).error, json(text).error);
    }
}
