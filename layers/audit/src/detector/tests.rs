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

fn detect(media: &'static str, text: &str, size: usize) -> DetectionResult {
    let mut detector = detector(media);
    let chunks: Vec<_> = text.as_bytes().chunks(size).collect();
    for (index, chunk) in chunks.iter().enumerate() {
        detector.inspect(&Bytes::copy_from_slice(chunk), index + 1 == chunks.len());
    }
    detector.finish()
}

fn json(text: &str) -> DetectionResult {
    detect("application/json; charset=utf-8", text, usize::MAX)
}

fn rpc() -> ApplicationError {
    let message = Some(PayloadExcerpt::new(b"no \"such\" thing: Bearer c4n4ry", MAX_ERROR_MESSAGE));
    ApplicationError::Rpc { code: Some(-32000), message }
}

#[test]
fn detects_error_in_json_body() {
    assert_eq!(json(ERROR).error, Some(rpc()));
    assert_eq!(json(TOOL).error, Some(ApplicationError::Tool));
    assert_eq!(json(GOOD), DetectionResult { response_passed: true, error: None });
    assert_eq!(json("<html>").error, None);
}

#[test]
fn detects_error_in_inspected_prefix_only() {
    let long = ERROR.replace("\"data\":{}", &format!("\"data\":\"{}\"", "x".repeat(99_999)));
    assert_eq!(json(&long).error, Some(rpc()));
    assert_eq!(detect("application/json", &long, 7).error, Some(rpc()));
    let hidden = format!("{{{}{}", " ".repeat(MAX_INSPECTED), ERROR.get(1..).unwrap());
    assert_eq!(json(&hidden).error, None);
}

#[test]
fn truncates_long_error_message() {
    let long = ERROR.replace("no ", &"\u{e9}".repeat(999));
    let Some(ApplicationError::Rpc { message, .. }) = json(&long).error else { panic!() };
    assert_eq!(message.unwrap().prefix.len(), MAX_ERROR_MESSAGE);
}

#[test]
fn detects_error_in_response_of_stream() {
    let stream = format!("data: {PROGRESS}\n\nid: 7\ndata: {QUESTION}\n\ndata: {ERROR}\n\n");
    for size in [1, 5, 64, 9999] {
        assert_eq!(detect("text/event-stream", &stream, size).error, Some(rpc()));
    }
    let unanswered = format!("data: {PROGRESS}\n\n");
    assert_eq!(detect("text/event-stream", &unanswered, 9), DetectionResult::default());
}

#[test]
fn buffers_only_prefix_of_response() {
    let mut detector = detector("application/json");
    for _ in 0..1000 {
        detector.inspect(&Bytes::from(vec![b' '; 1000]), false);
        if let Detector::Json(buffer) = &detector {
            assert!(buffer.len() <= MAX_INSPECTED);
        }
    }
    assert!(matches!(detector, Detector::Done(_)));
}

#[test]
fn ignores_other_media_types() {
    let mut headers = HeaderMap::new();
    assert!(Detector::new(&headers).is_none());
    headers.insert(CONTENT_TYPE, "text/html".parse().unwrap());
    assert!(Detector::new(&headers).is_none());
}

proptest! {
    #[test]
    fn detection_is_independent_of_chunk_boundaries(
        size in 1_usize..60,
        text in prop_oneof![Just(ERROR), Just(TOOL), Just(GOOD), Just(PROGRESS)],
    ) {
        prop_assert_eq!(detect("application/json", text, size), json(text));
        let stream = format!("data: {text}\n\n");
        prop_assert_eq!(detect("text/event-stream", &stream, size).error, json(text).error);
    }
}
