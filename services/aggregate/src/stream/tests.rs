use futures_util::FutureExt;
use http_body_util::BodyExt;
use tokio::time::{advance, sleep};
use vmcp_core::ByteBudget;

use super::connection::KEEP_ALIVE;
use super::state::MAX_STREAM_BYTES;
use super::*;
use crate::event_stream::MAX_FRAME;
use crate::stream::detached::DetachedBudget;

fn stream_of(number: u32) -> Arc<Stream> {
    stream_within(64 << 20, number)
}

fn stream_within(budget: usize, number: u32) -> Arc<Stream> {
    let identity = vmcp_core::Identity::new("i", "s");
    let account = ClientAccount::new(&DetachedBudget::new(budget), None, &identity, None);
    let name = number.to_string().into();
    if number == 0 { Stream::standing(name, account) } else { Stream::new(name, account) }
}

fn push(stream: &Stream, data: &str, class: MessageClass) -> bool {
    stream.push(Bytes::copy_from_slice(data.as_bytes()), class)
}

async fn read(connection: &mut Connection) -> String {
    let frame = connection.frame().await.unwrap().unwrap();
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn resumes_stream_after_last_event() {
    let stream = stream_of(7);
    let mut first = stream.connect(None, Opening::Primed);
    assert_eq!(read(&mut first).await, "id: 7-0\nretry: 1000\ndata: \n\n");
    push(&stream, "a", MessageClass::Required);
    push(&stream, "b", MessageClass::Required);
    assert_eq!(read(&mut first).await, "id: 7-1\ndata: a\n\nid: 7-2\ndata: b\n\n");
    drop(first);
    push(&stream, "c", MessageClass::Required);
    stream.end();
    let (number, next) = parse_id("7-1").unwrap();
    assert_eq!(number, "7");
    let mut second = stream.connect(Some(next), Opening::Plain);
    assert_eq!(read(&mut second).await, "id: 7-2\ndata: b\n\nid: 7-3\ndata: c\n\n");
    assert!(second.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn second_connection_ends_first() {
    let stream = stream_of(0);
    let mut first = stream.connect(None, Opening::Plain);
    let mut second = stream.connect(None, Opening::Plain);
    push(&stream, "a", MessageClass::Required);
    assert!(first.frame().await.is_none());
    assert_eq!(read(&mut second).await, "id: 0-1\ndata: a\n\n");
    drop(first);
    assert!(stream.connected());
}

#[tokio::test(start_paused = true)]
async fn drops_oldest_progress_but_never_results() {
    let stream = stream_of(0);
    push(&stream, "result", MessageClass::Required);
    for n in 0..100 {
        push(&stream, &format!("p{n}"), MessageClass::Droppable);
    }
    stream.end();
    let body = stream.connect(None, Opening::Plain).collect().await.unwrap().to_bytes();
    let text = String::from_utf8(body.to_vec()).unwrap();
    assert!(text.contains("data: result\n"), "{text}");
    assert!(!text.contains("data: p36\n"), "{text}");
    assert!(text.contains("data: p37\n"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn slow_client_loses_connection_but_no_messages() {
    let stream = stream_of(0);
    let mut slow = stream.connect(None, Opening::Plain);
    for n in 0..=MAX_QUEUED_MESSAGES {
        assert!(push(&stream, &n.to_string(), MessageClass::Required));
    }
    assert!(slow.frame().await.is_none());
    stream.end();
    let body = stream.connect(None, Opening::Plain).collect().await.unwrap().to_bytes();
    assert_eq!(
        body.windows(6).filter(|window| *window == b"data: ").count(),
        MAX_QUEUED_MESSAGES + 1
    );
}

#[tokio::test(start_paused = true)]
async fn bounds_messages_for_absent_client() {
    let stream = stream_of(0);
    let taken =
        (0..10_000).filter(|n| push(&stream, &n.to_string(), MessageClass::Required)).count();
    assert_eq!(taken, 8 * MAX_QUEUED_MESSAGES);
    let wide = stream_of(1);
    let megabyte = "x".repeat(1 << 20);
    assert_eq!((0..100).filter(|_| push(&wide, &megabyte, MessageClass::Required)).count(), 4);
}

#[tokio::test(start_paused = true)]
async fn response_always_fits() {
    let large = "x".repeat(MAX_STREAM_BYTES + 1);
    for waiting in [MessageClass::Droppable, MessageClass::Required] {
        let stream = stream_of(1);
        for n in 0..1000 {
            push(&stream, &n.to_string(), waiting);
        }
        stream.finish(Bytes::from(large.clone()), None);
        assert!(!push(&stream, "late", MessageClass::Required));
        let body = stream.connect(None, Opening::Plain).collect().await.unwrap().to_bytes();
        assert!(body.len() > large.len(), "{waiting:?}");
        // All messages have been read, and the bytes kept for resending are bounded.
        assert!(stream.lock().bytes <= MAX_STREAM_BYTES / 4);
    }
}

#[tokio::test(start_paused = true)]
async fn oversized_notification_displaces_no_smaller_one() {
    let stream = stream_of(1);
    push(&stream, "small", MessageClass::Droppable);
    assert!(push(&stream, &"x".repeat(MAX_STREAM_BYTES + 1), MessageClass::Droppable));
    stream.end();
    let body = stream.connect(None, Opening::Plain).collect().await.unwrap().to_bytes();
    assert_eq!(body, "id: 1-1\ndata: small\n\n");
}

#[tokio::test(start_paused = true)]
async fn full_stream_accepts_messages_after_read() {
    let stream = stream_of(0);
    while push(&stream, "message", MessageClass::Required) {}
    let mut connection = stream.connect(None, Opening::Plain);
    read(&mut connection).await;
    assert!(push(&stream, "news", MessageClass::Required));
    assert!(read(&mut connection).await.contains("data: news"));
}

#[tokio::test(start_paused = true)]
async fn queues_equal_changes_once() {
    let stream = stream_of(0);
    let mut connection = stream.connect(None, Opening::Plain);
    for round in 0..2 {
        for _ in 0..1000 {
            assert!(push(&stream, "changed", MessageClass::Coalesced));
        }
        assert!(push(&stream, "other", MessageClass::Coalesced));
        let said = read(&mut connection).await;
        assert_eq!(said.matches("changed").count(), 1, "{round}");
    }
}

#[tokio::test(start_paused = true)]
async fn sends_keep_alive_on_silent_stream() {
    let stream = stream_of(0);
    let mut connection = stream.connect(None, Opening::Plain);
    let began = Instant::now();
    assert_eq!(read(&mut connection).await, ": keep-alive\n\n");
    assert_eq!(began.elapsed(), KEEP_ALIVE);
}

#[tokio::test(start_paused = true)]
async fn keeps_ended_stream_for_resumption_window() {
    let stream = stream_of(0);
    stream.end();
    assert!(!stream.is_over());
    advance(RESUMPTION_WINDOW).await;
    assert!(stream.is_over());
}

#[test]
fn rejects_malformed_event_ids() {
    for bad in ["", "x", "1", "1-", "-1", "1-x", "1--1x"] {
        assert_eq!(parse_id(bad), None, "{bad}");
    }
    assert_eq!(parse_id("a-b.c_-7"), Some(("a-b.c_", 7)));
}

#[tokio::test(start_paused = true)]
async fn abandons_stream_after_limit_without_client() {
    let stream = stream_of(1);
    let limit = Duration::from_mins(1);
    let connection = stream.connect(None, Opening::Plain);
    let began = Instant::now();
    let watching = {
        let stream = Arc::clone(&stream);
        tokio::spawn(async move { stream.abandoned(limit).await })
    };
    sleep(Duration::from_secs(100)).await;
    drop(connection);
    sleep(Duration::from_secs(59)).await;
    let connection = stream.connect(None, Opening::Plain);
    sleep(Duration::from_secs(100)).await;
    drop(connection);
    assert_eq!(watching.await.unwrap(), AbandonReason::Time);
    assert_eq!(began.elapsed(), Duration::from_secs(100 + 59 + 100 + 60));
}

#[tokio::test(start_paused = true)]
async fn unread_messages_are_no_disconnection() {
    let stream = stream_of(1);
    let connection = stream.connect(None, Opening::Plain);
    assert!(push(&stream, "unread", MessageClass::Required));
    let waited = tokio::time::timeout(Duration::from_mins(1), stream.disconnected()).await;
    assert!(waited.is_err(), "the client is connected");
    drop(connection);
    stream.disconnected().await;
}

#[tokio::test(start_paused = true)]
async fn bounds_bytes_for_disconnected_client() {
    let stream = stream_within(200 << 10, 1);
    drop(stream.connect(None, Opening::Plain));
    let part = "x".repeat(20 << 10);
    for _ in 0..100 {
        assert!(push(&stream, &part, MessageClass::Droppable), "older progress makes room");
    }
    assert!(stream.lock().bytes <= 100 << 10);
    assert!(push(&stream, "question", MessageClass::Required));
    while push(&stream, &part, MessageClass::Required) {}
    assert!(stream.lock().bytes <= 100 << 10);
    assert_eq!(stream.abandoned(Duration::from_mins(1)).await, AbandonReason::Bytes);
    assert!(
        !stream.finish(Bytes::from("x".repeat(100 << 10)), None),
        "there is no room for it alone"
    );
    let response = Bytes::from("x".repeat(50 << 10));
    assert!(stream.finish(response, None), "it comes before all others");
    let body = stream.connect(None, Opening::Plain).collect().await.unwrap().to_bytes();
    assert!(body.starts_with(b"id: 1-") && body.len() < 51 << 10, "{} bytes", body.len());
}

#[tokio::test(start_paused = true)]
async fn short_messages_keep_no_long_chunk_in_memory() {
    let stream = stream_of(1);
    let connection = stream.connect(None, Opening::Plain);
    let chunk = Bytes::from(vec![b'x'; 1 << 20]);
    assert!(stream.push(chunk.slice(..10), MessageClass::Required));
    drop(connection);
    assert!(stream.push(chunk.slice(10..20), MessageClass::Required));
    assert!(chunk.is_unique());
}

/// Creates a stream of a client whose process has this budget.
fn stream_of_process(budget: &ByteBudget) -> Arc<Stream> {
    let (detached, identity) = (DetachedBudget::new(64 << 20), vmcp_core::Identity::new("i", "s"));
    Stream::new("1".into(), ClientAccount::new(&detached, Some(budget), &identity, None))
}

#[tokio::test(start_paused = true)]
async fn messages_for_connected_clients_count_until_sent() {
    let budget = ByteBudget::new(1 << 20);
    let stream = stream_of_process(&budget);
    let mut connection = stream.connect(None, Opening::Plain);
    let message = "x".repeat(30 << 10);
    for count in 1..=3 {
        assert!(push(&stream, &message, MessageClass::Required));
        assert_eq!(budget.counts().held, count * message.len());
    }
    let mut length = 0;
    while length < 3 * message.len() {
        length += read(&mut connection).await.len();
    }
    // Sent messages are kept for a while for resending.
    assert_eq!(budget.counts().held, 3 * message.len());
    drop((stream, connection));
    assert_eq!(budget.counts().held, 0);
}

#[tokio::test(start_paused = true)]
async fn client_over_quota_loses_progress_then_connection() {
    let budget = ByteBudget::new(400 << 10);
    let stream = stream_of_process(&budget);
    let mut connection = stream.connect(None, Opening::Plain);
    let message = "x".repeat(30 << 10);
    for _ in 0..10 {
        assert!(push(&stream, &message, MessageClass::Droppable));
    }
    assert_eq!(budget.counts().held, 6 * message.len(), "half of the budget");
    for _ in 0..7 {
        push(&stream, &message, MessageClass::Required);
    }
    assert!(connection.frame().await.is_none(), "it can come back and read on");
    assert_eq!(budget.counts().held, 0, "what waits counts for clients that are away");
    let mut next = stream.connect(None, Opening::Plain);
    assert!(read(&mut next).await.starts_with("id: 1-"));
}

#[tokio::test(start_paused = true)]
async fn charges_response_until_sent() {
    let budget = ByteBudget::new(1 << 20);
    let stream = stream_of_process(&budget);
    let mut connection = stream.connect(None, Opening::Plain);
    let mut count = budget.open(budget.backend("a"));
    count.try_grow(300 << 10).unwrap();
    assert!(stream.finish(Bytes::from("x".repeat(300 << 10)), Some(count)));
    assert_eq!(budget.counts().held, 300 << 10);
    let mut length = 0;
    while let Some(frame) = connection.frame().await {
        let frame = frame.unwrap().into_data().unwrap();
        assert!(frame.len() <= MAX_FRAME + 100, "what a connection buffers is short");
        length += frame.len();
    }
    assert_eq!(length, (300 << 10) + "id: 1-1\ndata: \n\n".len());
    drop((stream, connection));
    assert_eq!(budget.counts().held, 0);
}

#[tokio::test(start_paused = true)]
async fn keeps_message_during_send() {
    let stream = stream_of(1);
    let mut connection = stream.connect(None, Opening::Plain);
    let long = "x".repeat(3 << 20);
    assert!(push(&stream, &long, MessageClass::Droppable));
    let mut sent = read(&mut connection).await;
    // The budget does not suffice for both.
    assert!(push(&stream, &"y".repeat(3 << 20), MessageClass::Droppable));
    assert!(push(&stream, "z", MessageClass::Required));
    stream.end();
    while let Some(frame) = connection.frame().await {
        sent.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
    }
    assert_eq!(sent.len(), long.len() + 2 * "id: 1-1\ndata: \n\n".len() + 1);
    assert!(sent.ends_with("data: z\n\n"));
}

#[tokio::test(start_paused = true)]
async fn full_stream_slows_its_backend() {
    let stream = stream_of(1);
    let mut connection = stream.connect(None, Opening::Plain);
    for _ in 0..MAX_QUEUED_MESSAGES - 1 {
        push(&stream, "progress", MessageClass::Droppable);
    }
    assert!(stream.pace().now_or_never().is_some(), "there is room");
    push(&stream, "progress", MessageClass::Droppable);
    let begun = Instant::now();
    stream.pace().await;
    assert_eq!(begun.elapsed(), MAX_PAUSE);
    let ((), read) = tokio::join!(stream.pace(), read(&mut connection));
    assert!(begun.elapsed() == MAX_PAUSE && !read.is_empty(), "it goes on once the client reads");
}
