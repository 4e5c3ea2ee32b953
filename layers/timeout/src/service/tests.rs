use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt;
use http_body_util::channel::Channel;
use tokio::time::Instant;
use tower::{Layer, ServiceExt, service_fn};

use super::*;

type Frames = Channel<Bytes, std::io::Error>;

fn silent()
-> impl Service<Request<()>, Response = Response<Frames>, Error = std::io::Error, Future: Send> + Clone
{
    service_fn(|_: Request<()>| std::future::pending())
}

#[tokio::test(start_paused = true)]
async fn each_backend_has_its_own_time() {
    let slow = Backend::new("slow");
    let layer = TimeoutLayer::new(Duration::from_secs(1))
        .per_backend(HashMap::from([(slow.clone(), Duration::from_secs(9))]));
    for (backend, seconds) in [(slow, 9), (Backend::new("other"), 1)] {
        let began = Instant::now();
        let mut request = Request::new(());
        request.extensions_mut().insert(backend);
        let error = layer.layer(silent()).oneshot(request).await.unwrap_err();
        assert_eq!(error.downcast_ref::<Elapsed>().unwrap().limit.as_secs(), seconds);
        assert_eq!(began.elapsed().as_secs(), seconds);
    }
}

/// How long a silent backend is waited for in milliseconds, with 2 s and these pauses, each from when to when.
async fn waited(pauses: &[(u64, u64)]) -> u128 {
    let hold = Hold::new();
    let mut request = Request::new(());
    request.extensions_mut().insert(hold.clone());
    for (from, to) in pauses.iter().copied() {
        let hold = hold.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(from)).await;
            let _pause = hold.pause();
            tokio::time::sleep(Duration::from_millis(to - from)).await;
        });
    }
    let began = Instant::now();
    let call = TimeoutLayer::new(Duration::from_secs(2)).layer(silent()).oneshot(request);
    assert!(call.await.unwrap_err().is::<Elapsed>());
    began.elapsed().as_millis()
}

#[tokio::test(start_paused = true)]
async fn leaves_after_a_pause_what_was_left_before() {
    for (pauses, expected) in [
        (&[(0, 61_000)][..], 63_000),
        (&[(50, 3_550)], 5_500),
        (&[(1_990, 2_000)], 2_010),
        (&[(1_000, 1_500), (1_700, 9_000)], 9_800),
        (&[(1_000, 5_000), (1_500, 2_000), (4_000, 7_000)], 8_000),
        (&[(2_500, 9_000)], 2_000),
        (&[], 2_000),
    ] {
        let waited = waited(pauses).await;
        assert!(waited.abs_diff(expected) <= 5, "{pauses:?}: {waited}");
    }
}

#[tokio::test(start_paused = true)]
async fn held_clock_wakes_nothing() {
    let (hold, polls) = (Hold::new(), Arc::new(AtomicUsize::new(0)));
    hold.forever();
    let clock = Clock::new(Duration::from_secs(2), Some(hold), Arc::default());
    let (_sender, body) = Frames::new(1);
    let mut body = Box::pin(ResponseBody::new(body, Some(clock)));
    let counter = Arc::clone(&polls);
    let waiting = std::future::poll_fn(move |cx| {
        counter.fetch_add(1, Ordering::Relaxed);
        body.as_mut().poll_frame(cx).map(drop)
    });
    assert!(tokio::time::timeout(Duration::from_secs(3600), waiting).await.is_err());
    assert!(polls.load(Ordering::Relaxed) < 5, "{polls:?}");
}

#[tokio::test(start_paused = true)]
async fn frame_during_a_pause_leaves_the_whole_time() {
    let (mut sender, body) = Frames::new(1);
    let hold = Hold::new();
    let clock = Clock::new(Duration::from_secs(2), Some(hold.clone()), Arc::default());
    let mut body = ResponseBody::new(body, Some(clock));
    let feeding = tokio::spawn(async move {
        let pause = hold.pause();
        tokio::time::sleep(Duration::from_secs(7)).await;
        sender.send_data(Bytes::from_static(b"x")).await.unwrap();
        tokio::time::sleep(Duration::from_secs(7)).await;
        drop(pause);
        tokio::time::sleep(Duration::from_millis(1900)).await;
        sender.send_data(Bytes::from_static(b"y")).await.unwrap();
        std::future::pending::<()>().await;
    });
    for _ in 0..2 {
        assert!(body.frame().await.unwrap().is_ok());
    }
    let began = Instant::now();
    assert!(body.frame().await.unwrap().unwrap_err().is::<Elapsed>());
    assert_eq!(began.elapsed().as_secs(), 2);
    feeding.abort();
}

#[tokio::test(start_paused = true)]
async fn a_stream_may_last_as_long_as_something_comes() {
    let (mut sender, body) = Frames::new(1);
    let mut body =
        ResponseBody::new(body, Some(Clock::new(Duration::from_secs(2), None, Arc::default())));
    let feeding = tokio::spawn(async move {
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            sender.send_data(Bytes::from_static(b"x")).await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
        drop(sender);
    });
    for _ in 0..10 {
        assert!(body.frame().await.unwrap().is_ok());
    }
    assert!(body.frame().await.unwrap().unwrap_err().is::<Elapsed>());
    feeding.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_time_passes() {
    let inner = service_fn(|_: Request<()>| async {
        tokio::time::sleep(Duration::from_millis(999)).await;
        Ok::<_, std::io::Error>(Response::new(Frames::new(1).1))
    });
    let service = TimeoutLayer::new(Duration::from_secs(1)).layer(inner);
    assert!(service.oneshot(Request::new(())).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_is_used_again_leaves_the_whole_time() {
    let service = TimeoutLayer::new(Duration::from_secs(10)).layer(silent());
    // Each is given up after seven seconds, and its timer goes to the next one.
    for _ in 0..3 {
        let call = service.clone().oneshot(Request::new(()));
        assert!(tokio::time::timeout(Duration::from_secs(7), call).await.is_err());
        assert_eq!(service.layer.shared.idle.len(), 1);
    }
    let began = Instant::now();
    let error = service.clone().oneshot(Request::new(())).await.unwrap_err();
    assert!(error.is::<Elapsed>());
    assert_eq!(began.elapsed().as_secs(), 10);
    assert_eq!(service.layer.shared.idle.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_timer_of_a_longer_time_serves_a_shorter_one() {
    let slow = Backend::new("slow");
    let layer = TimeoutLayer::new(Duration::from_secs(1))
        .per_backend(HashMap::from([(slow.clone(), Duration::from_secs(60))]));
    let mut request = Request::new(());
    request.extensions_mut().insert(slow);
    let call = layer.layer(silent()).oneshot(request);
    assert!(tokio::time::timeout(Duration::from_secs(1), call).await.is_err());
    let began = Instant::now();
    assert!(layer.layer(silent()).oneshot(Request::new(())).await.is_err());
    assert_eq!(began.elapsed().as_secs(), 1);
}

#[test]
fn timers_do_not_outlive_their_runtime() {
    let service = TimeoutLayer::new(Duration::from_secs(10)).layer(silent());
    for _ in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let call = service.clone().oneshot(Request::new(()));
            assert!(tokio::time::timeout(Duration::from_secs(7), call).await.is_err());
            assert_eq!(service.layer.shared.idle.len(), 1);
        });
    }
}
