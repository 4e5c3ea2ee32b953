use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body::Body as _;
use http_body_util::channel::Channel;
use http_body_util::{BodyExt, Full};
use tokio::time::Instant;
use tower::{Layer, ServiceExt, service_fn};

use super::*;

type Frames = Channel<Bytes, std::io::Error>;

fn silent_service()
-> impl Service<Request<()>, Response = Response<Frames>, Error = std::io::Error, Future: Send> + Clone
{
    service_fn(|_: Request<()>| std::future::pending())
}

#[tokio::test(start_paused = true)]
async fn applies_timeout_of_each_backend() {
    let slow = Backend::new("slow");
    let layer = TimeoutLayer::new(Duration::from_secs(1))
        .per_backend(HashMap::from([(slow.clone(), Duration::from_secs(9))]));
    for (backend, seconds) in [(slow, 9), (Backend::new("other"), 1)] {
        let began = Instant::now();
        let mut request = Request::new(());
        request.extensions_mut().insert(backend);
        let error = layer.layer(silent_service()).oneshot(request).await.unwrap_err();
        assert_eq!(error.downcast_ref::<Elapsed>().unwrap().limit.as_secs(), seconds);
        assert_eq!(began.elapsed().as_secs(), seconds);
    }
}

/// Returns the milliseconds until the call of a silent backend fails, with a timeout of 2 s and pauses of the given
/// start and end.
async fn millis_until_timeout(pauses: &[(u64, u64)]) -> u128 {
    let control = TimeoutControl::new();
    let mut request = Request::new(());
    request.extensions_mut().insert(control.clone());
    for (from, to) in pauses.iter().copied() {
        let control = control.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(from)).await;
            let _pause = control.pause();
            tokio::time::sleep(Duration::from_millis(to - from)).await;
        });
    }
    let began = Instant::now();
    let call = TimeoutLayer::new(Duration::from_secs(2)).layer(silent_service()).oneshot(request);
    assert!(call.await.unwrap_err().is::<Elapsed>());
    began.elapsed().as_millis()
}

#[tokio::test(start_paused = true)]
async fn remaining_time_survives_pause() {
    for (pauses, expected) in [
        (&[(0, 61_000)][..], 63_000),
        (&[(50, 3_550)], 5_500),
        (&[(1_990, 2_000)], 2_010),
        (&[(1_000, 1_500), (1_700, 9_000)], 9_800),
        (&[(1_000, 5_000), (1_500, 2_000), (4_000, 7_000)], 8_000),
        (&[(2_500, 9_000)], 2_000),
        (&[], 2_000),
    ] {
        let millis_until_timeout = millis_until_timeout(pauses).await;
        assert!(millis_until_timeout.abs_diff(expected) <= 5, "{pauses:?}: {millis_until_timeout}");
    }
}

#[tokio::test(start_paused = true)]
async fn paused_timer_does_not_wake() {
    let (control, polls) = (TimeoutControl::new(), Arc::new(AtomicUsize::new(0)));
    control.disable();
    let timer = IdleTimer::new(Duration::from_secs(2), Some(control), Arc::default());
    let (_sender, body) = Frames::new(1);
    let mut body = Box::pin(ResponseBody::new(body, Some(timer)));
    let counter = Arc::clone(&polls);
    let waiting = std::future::poll_fn(move |cx| {
        counter.fetch_add(1, Ordering::Relaxed);
        body.as_mut().poll_frame(cx).map(drop)
    });
    assert!(tokio::time::timeout(Duration::from_hours(1), waiting).await.is_err());
    assert!(polls.load(Ordering::Relaxed) < 5, "{polls:?}");
}

#[tokio::test(start_paused = true)]
async fn frame_during_pause_restarts_timeout() {
    let (mut sender, body) = Frames::new(1);
    let control = TimeoutControl::new();
    let timer = IdleTimer::new(Duration::from_secs(2), Some(control.clone()), Arc::default());
    let mut body = ResponseBody::new(body, Some(timer));
    let feeding = tokio::spawn(async move {
        let pause = control.pause();
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
async fn stream_lasts_while_frames_arrive() {
    let (mut sender, body) = Frames::new(1);
    let mut body =
        ResponseBody::new(body, Some(IdleTimer::new(Duration::from_secs(2), None, Arc::default())));
    let feeding = tokio::spawn(async move {
        for _ in 0..10 {
            // The timer fires between two frames, with the deadline of an earlier one.
            tokio::time::sleep(Duration::from_millis(1500)).await;
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
async fn forwards_frames_and_size_hint() {
    let inner = service_fn(|_: Request<()>| async {
        Ok::<_, std::io::Error>(Response::new(Full::new(Bytes::from_static(b"abc"))))
    });
    let layer = TimeoutLayer::new(Duration::from_secs(1));
    let mut body = layer.layer(inner).oneshot(Request::new(())).await.unwrap().into_body();
    assert_eq!(body.size_hint().exact(), Some(3));
    assert!(!body.is_end_stream());
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "abc");
    assert!(body.is_end_stream());
}

#[tokio::test]
async fn forwards_inner_readiness() {
    let layer = TimeoutLayer::new(Duration::from_secs(1));
    let (mut service, mut handle) =
        tower_test::mock::spawn_layer::<Request<()>, Response<Frames>, _>(layer);
    handle.allow(0);
    assert!(service.poll_ready().is_pending());
    handle.allow(1);
    assert!(service.poll_ready().is_ready());
}

#[tokio::test(start_paused = true)]
async fn response_in_time_passes() {
    let inner = service_fn(|_: Request<()>| async {
        tokio::time::sleep(Duration::from_millis(999)).await;
        Ok::<_, std::io::Error>(Response::new(Frames::new(1).1))
    });
    let service = TimeoutLayer::new(Duration::from_secs(1)).layer(inner);
    assert!(service.oneshot(Request::new(())).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn pooled_timer_waits_full_timeout() {
    let service = TimeoutLayer::new(Duration::from_secs(10)).layer(silent_service());
    // Each call is dropped after 7 s and leaves its timer to the next one.
    for _ in 0..3 {
        let call = service.clone().oneshot(Request::new(()));
        assert!(tokio::time::timeout(Duration::from_secs(7), call).await.is_err());
        assert_eq!(service.layer.state.timer_pool.len(), 1);
    }
    let began = Instant::now();
    let error = service.clone().oneshot(Request::new(())).await.unwrap_err();
    assert!(error.is::<Elapsed>());
    assert_eq!(began.elapsed().as_secs(), 10);
    assert_eq!(service.layer.state.timer_pool.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn pooled_timer_serves_shorter_timeout() {
    let slow = Backend::new("slow");
    let layer = TimeoutLayer::new(Duration::from_secs(1))
        .per_backend(HashMap::from([(slow.clone(), Duration::from_mins(1))]));
    let mut request = Request::new(());
    request.extensions_mut().insert(slow);
    let call = layer.layer(silent_service()).oneshot(request);
    assert!(tokio::time::timeout(Duration::from_secs(1), call).await.is_err());
    let began = Instant::now();
    assert!(layer.layer(silent_service()).oneshot(Request::new(())).await.is_err());
    assert_eq!(began.elapsed().as_secs(), 1);
}

#[test]
fn timers_do_not_outlive_their_runtime() {
    let service = TimeoutLayer::new(Duration::from_secs(10)).layer(silent_service());
    for _ in 0..2 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let call = service.clone().oneshot(Request::new(()));
            assert!(tokio::time::timeout(Duration::from_secs(7), call).await.is_err());
            assert_eq!(service.layer.state.timer_pool.len(), 1);
        });
    }
}
