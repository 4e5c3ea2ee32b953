use http_body_util::channel::{Channel, Sender};
use vmcp_core::ByteBudget;

use super::*;

const KB: usize = 1000;

/// Creates a stream charged to the only owner in `budget`, with the sender of its bytes.
fn stream(
    budget: &ByteBudget,
    is_long_lived: bool,
) -> (Sender<Bytes, std::io::Error>, EventReader) {
    let (sender, body) = Channel::new(8);
    let account = budget.account(budget.backend("a"));
    let events = EventReader::new(Body::wrap(body), 1000 * KB);
    let events = if is_long_lived {
        events.charged_while_open(Some(&account))
    } else {
        events.charged(Some(&account))
    };
    (sender, events)
}

fn event(length: usize) -> Bytes {
    format!("data: {}\n\n", "x".repeat(length)).into()
}

async fn next(events: &mut EventReader) -> usize {
    events.next().await.unwrap().unwrap().data.len()
}

#[tokio::test(start_paused = true)]
async fn short_first_event_is_not_counted() {
    let budget = ByteBudget::new(100 * KB);
    let (mut sender, mut events) = stream(&budget, false);
    sender.send_data(event(4000)).await.unwrap();
    assert_eq!((next(&mut events).await, budget.counts().held), (4000, 0));
    assert!(events.take_reservation().is_none());
    sender.send_data(event(3000)).await.unwrap();
    assert_eq!((next(&mut events).await, budget.counts().held), (3000, 3000));
}

#[tokio::test(start_paused = true)]
async fn charges_event_until_next_read() {
    let budget = ByteBudget::new(100 * KB);
    let (mut sender, mut events) = stream(&budget, false);
    let whole = event(20 * KB);
    for piece in whole.chunks(5 * KB) {
        sender.send_data(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    assert_eq!((next(&mut events).await, budget.counts().held), (20 * KB, 20 * KB));
    sender.send_data(event(10 * KB)).await.unwrap();
    assert_eq!((next(&mut events).await, budget.counts().held), (10 * KB, 10 * KB));
    let taken = events.take_reservation().unwrap();
    sender.send_data(event(5 * KB)).await.unwrap();
    assert_eq!((next(&mut events).await, budget.counts().held), (5 * KB, 15 * KB));
    drop((taken, events));
    assert_eq!(budget.counts().held, 0);
}

#[tokio::test(start_paused = true)]
async fn short_event_keeps_no_long_chunk() {
    let budget = ByteBudget::new(100 * KB);
    let (mut sender, mut events) = stream(&budget, false);
    let chunk: Bytes = [&event(20 * KB)[..], &event(100)].concat().into();
    sender.send_data(chunk.clone()).await.unwrap();
    assert_eq!(next(&mut events).await, 20 * KB);
    let short = events.next().await.unwrap().unwrap().data;
    assert!(!chunk.as_ptr_range().contains(&short.as_ptr()));
}

#[tokio::test(start_paused = true)]
async fn response_beyond_budget_fails() {
    let budget = ByteBudget::new(100 * KB);
    let (mut sender, mut events) = stream(&budget, false);
    let mut other = budget.open(budget.backend("a"));
    other.try_grow(45 * KB).unwrap();
    sender.send_data(event(20 * KB)).await.unwrap();
    let begun = tokio::time::Instant::now();
    let error = events.next().await.unwrap().unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(BackendError::NoRoom)), "{error}");
    assert_eq!((begun.elapsed(), budget.counts().waiting), (MAX_BUDGET_WAIT, 0));
}

#[tokio::test(start_paused = true)]
async fn long_stream_waits_for_budget() {
    let budget = ByteBudget::new(100 * KB);
    let (mut sender, mut events) = stream(&budget, true);
    let mut other = budget.open(budget.backend("a"));
    other.try_grow(45 * KB).unwrap();
    sender.send_data(event(20 * KB)).await.unwrap();
    let minute = Duration::from_mins(1);
    assert!(tokio::time::timeout(minute, events.next()).await.is_err());
    drop(other);
    assert_eq!(next(&mut events).await, 20 * KB);
    // An event above the limit ends the stream.
    sender.send_data(event(60 * KB)).await.unwrap();
    assert!(events.next().await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn waits_for_budget_before_reading() {
    let budget = ByteBudget::new(100 * KB);
    let (mut sender, mut events) = stream(&budget, true);
    let mut other = budget.open(budget.backend("a"));
    other.try_grow(25 * KB).unwrap();
    let whole = event(40 * KB);
    for piece in whole.chunks(20 * KB) {
        sender.send_data(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    let second = Duration::from_secs(1);
    assert!(tokio::time::timeout(second, events.next()).await.is_err());
    assert!(events.count.as_ref().unwrap().pending.is_none(), "it stays with the backend");
    drop(other);
    assert_eq!(next(&mut events).await, 40 * KB);
}

#[tokio::test(start_paused = true)]
async fn partial_event_yields_budget_to_waiting_requests() {
    let budget = ByteBudget::new(100 * KB);
    let (mut sender, mut events) = stream(&budget, true);
    sender.send_data(event(40 * KB).slice(..40 * KB)).await.unwrap();
    let minute = Duration::from_mins(1);
    assert!(tokio::time::timeout(minute, events.next()).await.is_err(), "nothing waits");
    let account = budget.account(budget.backend("a"));
    let mut other = account.open();
    let waiting = tokio::spawn(async move { other.grow(20 * KB).await });
    let error = events.next().await.unwrap().unwrap_err();
    assert!(matches!(error.downcast_ref(), Some(BackendError::NoRoom)), "{error}");
    drop(events);
    assert!(waiting.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn fails_partial_event_after_max_budget_wait() {
    let budget = ByteBudget::new(100 * KB);
    let (mut sender, mut events) = stream(&budget, true);
    let mut other = budget.open(budget.backend("a"));
    other.try_grow(25 * KB).unwrap();
    let whole = event(40 * KB);
    for piece in whole.chunks(20 * KB) {
        sender.send_data(Bytes::copy_from_slice(piece)).await.unwrap();
    }
    let begun = tokio::time::Instant::now();
    assert!(events.next().await.unwrap().is_err());
    assert_eq!(begun.elapsed(), MAX_BUDGET_WAIT);
}
