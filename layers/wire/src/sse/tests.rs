use bytes::{Bytes, BytesMut};

use super::*;

fn events(stream: &[u8]) -> Vec<Result<Event, EventTooLargeError>> {
    let mut reader = Reader::new(64);
    reader.push(Bytes::copy_from_slice(stream));
    reader.collect()
}

fn data(stream: &[u8]) -> Vec<Bytes> {
    events(stream).into_iter().map(|event| event.unwrap().data).collect()
}

#[test]
fn reads_all_fields() {
    let found = events(b"event: message\nid: 7\nretry: 250\ndata: {}\n\n");
    let expected = Event {
        data: Bytes::from_static(b"{}"),
        event: Some(Bytes::from_static(b"message")),
        id: Some(Bytes::from_static(b"7")),
        retry: Some(250),
    };
    assert_eq!(found, [Ok(expected)]);
}

#[test]
fn ends_lines_with_cr_lf_or_both() {
    for stream in
        ["data: a\n\ndata: b\n\n", "data: a\r\rdata: b\r\r", "data: a\r\n\r\ndata: b\r\n\r\n"]
    {
        assert_eq!(data(stream.as_bytes()), ["a", "b"], "{stream:?}");
    }
}

#[test]
fn returns_event_at_its_final_cr() {
    let mut reader = Reader::new(64);
    reader.push(Bytes::from_static(b"data: a\r\n\r"));
    assert_eq!(reader.next().unwrap().unwrap().data, "a");
    reader.push(Bytes::from_static(b"\ndata: b\n\n"));
    assert_eq!(reader.next().unwrap().unwrap().data, "b");
    assert_eq!(reader.next(), None);
}

#[test]
fn joins_data_lines() {
    assert_eq!(data(b"data: a\ndata:\ndata:  b\ndata\n\n"), ["a\n\n b\n"]);
}

#[test]
fn ignores_events_without_data() {
    assert_eq!(data(b"id: 1\ndata:\n\nid: 2\n\nevent: x\n\ndata: a\n\n"), ["", "a"]);
    let mut reader = Reader::new(64);
    reader.push(Bytes::from_static(b"id: 2\nretry: 10\n\nretry: 1x\nretry:\nid: a\0b\n\n"));
    assert_eq!(reader.next(), None);
    assert_eq!((reader.last_id().unwrap(), reader.retry()), (&Bytes::from_static(b"2"), Some(10)));
}

#[test]
fn does_not_carry_fields_into_the_next_event() {
    let found = events(b"event: x\nid: 1\n\ndata: a\n\n");
    assert_eq!(found, [Ok(Event { data: Bytes::from_static(b"a"), ..Event::default() })]);
}

#[test]
fn skips_comments_unknown_fields_and_byte_order_mark() {
    assert_eq!(data(b"\xEF\xBB\xBFdata: a\n: hello\nfoo: bar\nfoo\n\n:\n\n"), ["a"]);
    assert_eq!(data(b"\xEF\xBB\xBF: hello\ndata: a\n\n\xEF\xBB\xBFdata: b\n\n"), ["a"]);
}

#[test]
fn reads_any_number_of_comments_at_once() {
    let mut stream = b":\n\n".repeat(200_000);
    stream.extend_from_slice(b"data: a\n\n");
    assert_eq!(data(&stream), ["a"]);
}

#[test]
fn borrows_data_of_event_in_one_chunk() {
    let chunk = Bytes::from_static(b"id: 1\ndata: {\"a\":1}\n\n");
    let mut reader = Reader::new(64);
    reader.push(chunk.clone());
    let event = reader.next().unwrap().unwrap();
    assert!(chunk.as_ptr_range().contains(&event.data.as_ptr()));
}

#[test]
fn skips_oversized_event() {
    let limit = EventTooLargeError { limit: 64 };
    let long = "x".repeat(59);
    let stream = format!("data: {long}\ndata: y\n\ndata: a\n\n");
    let found = events(stream.as_bytes());
    assert_eq!(found[0], Err(limit));
    assert_eq!(found[1].as_ref().unwrap().data, "a");
    let lines = format!("{}\ndata: a\n\n", "foo: bar\n".repeat(9));
    assert_eq!(events(lines.as_bytes())[0], Err(limit));
    let comment = format!(":{long}{long}\ndata: a\n\n");
    assert_eq!(data(comment.as_bytes()), ["a"]);
    assert_eq!(data(format!("data:{long}\n\n").as_bytes()).len(), 1);
}

#[test]
fn reports_truncated_streams() {
    for (stream, whole) in [
        ("", true),
        ("data: a\n\n", true),
        ("data: a\r\n\r", true),
        (": ping\n", true),
        ("data: a\n\n\n", true),
        ("data: a\n", false),
        ("data: a\n\ndat", false),
    ] {
        let mut reader = Reader::new(64);
        reader.push(Bytes::copy_from_slice(stream.as_bytes()));
        while reader.next().is_some() {}
        assert_eq!(reader.finish(), whole, "{stream:?}");
    }
}

#[test]
fn frames_an_event() {
    let mut out = Vec::new();
    frame(Some("1"), Some("message"), b"{}", &mut out);
    frame(None, None, b"", &mut out);
    assert_eq!(out, b"id: 1\nevent: message\ndata: {}\n\ndata: \n\n");
}

#[test]
fn frame_stays_valid_for_any_content() {
    let mut out = BytesMut::new();
    frame(Some("a\nid: b\0"), Some("x\r\n\r\ny"), b"{\r\n\"a\":\n\r1}\n", &mut out);
    let found = events(&out);
    let event = found[0].as_ref().unwrap();
    assert_eq!(event.data, "{\n\"a\":\n\n1}\n");
    assert_eq!(
        (event.id.as_deref(), event.event.as_deref()),
        (Some(&b"aid: b"[..]), Some(&b"xy"[..]))
    );
    assert_eq!(found.len(), 1);
}

#[test]
fn keeps_alive_without_an_event() {
    assert_eq!(events(KEEP_ALIVE), []);
}

proptest::proptest! {
    /// The pieces of an encoder are together what `frame` writes.
    #[test]
    fn encodes_in_pieces_of_any_length(
        data in "[a\r\n]{0,40}",
        most in 1..20_usize,
        has_id in proptest::bool::ANY,
    ) {
        let id = has_id.then_some("7-1");
        let (mut whole, mut pieces) = (Vec::new(), Vec::new());
        frame(id, Some("message"), data.as_bytes(), &mut whole);
        let mut encoder = Encoder::new(data.clone().into()).event("message");
        loop {
            let before = pieces.len();
            let is_complete = encoder.encode(id, most, &mut pieces);
            proptest::prop_assert!(pieces.len() - before <= 7 * most + 32);
            if is_complete {
                break;
            }
        }
        proptest::prop_assert_eq!(pieces, whole);
    }
}
