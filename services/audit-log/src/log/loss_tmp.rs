//! What becomes of events that cannot be written.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::{Counts, FileSink};

/// A log that can be made to fail.
fn failing() -> (Log, Arc<AtomicBool>, impl FnMut(&[u8]) -> io::Result<()> + Send + 'static) {
    let (log, full) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let mut write = log.sink();
    let looked_at = full.clone();
    let sink = move |lines: &[u8]| {
        if looked_at.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        write(lines)
    };
    (log, full, sink)
}

/// What tracing was given.
fn captured() -> (Log, tracing::subscriber::DefaultGuard) {
    let log = Log::default();
    let kept = log.clone();
    let subscriber =
        tracing_subscriber::fmt().json().with_writer(move || Kept(kept.clone())).finish();
    (log, tracing::subscriber::set_default(subscriber))
}

struct Kept(Log);

impl io::Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One call through `layer`, to its end.
async fn call(layer: AuditLayer) -> Bytes {
    let response = layer.layer(serve(CALL, |_| json_answer(RESULT))).oneshot(post()).await.unwrap();
    response.into_body().collect().await.unwrap().to_bytes()
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_counted_and_fails_no_request() {
    let (log, full, sink) = failing();
    let (auditor, writer) = Auditor::new(Settings::default(), sink);
    tokio::spawn(writer.run());
    let layer = AuditLayer::new(auditor.clone());
    full.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        assert_eq!(call(layer.clone()).await, RESULT);
        auditor.flush().await;
    }
    full.store(false, Ordering::SeqCst);
    call(layer).await;
    auditor.flush().await;
    assert_eq!(log.lines().len(), 1);
    assert_eq!(auditor.counts(), Counts { written: 1, dropped: 0, failed: 3 });
}

#[tokio::test(start_paused = true)]
async fn a_file_on_a_full_disk_fails_no_request() {
    let sink = FileSink::open("/dev/full").unwrap();
    let (auditor, writer) = Auditor::new(Settings::default(), sink);
    tokio::spawn(writer.run());
    assert_eq!(call(AuditLayer::new(auditor.clone())).await, RESULT);
    auditor.flush().await;
    assert_eq!(auditor.counts().failed, 1);
}

#[test]
fn a_failure_is_told_to_the_log_when_it_begins_and_when_it_is_over() {
    let (told, _guard) = captured();
    let mut state = false;
    for good in [true, false, false, false, true, true] {
        let outcome = if good { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) };
        crate::writer::report(&outcome, &mut state);
    }
    let told: Vec<_> = told.lines().iter().map(|line| line["level"].clone()).collect();
    assert_eq!(told, [json!("ERROR"), json!("INFO")]);
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_is_dropped_and_counted() {
    let settings = Settings { queue_bytes: 4000, ..Settings::default() };
    let (auditor, writer) = Auditor::new(settings, Log::default().sink());
    let layer = AuditLayer::new(auditor.clone());
    for _ in 0..50 {
        call(layer.clone()).await;
    }
    let dropped = auditor.counts().dropped;
    assert!((40..50).contains(&dropped), "{dropped}");
    auditor.close();
    writer.run().await;
    assert_eq!(auditor.counts(), Counts { written: 50 - dropped, dropped, failed: 0 });
}

#[tokio::test(start_paused = true)]
async fn answers_wait_for_room_where_events_must_not_be_lost() {
    let (log, full, sink) = failing();
    let settings = Settings { queue_bytes: 4000, overflow: Overflow::Wait, ..Settings::default() };
    let (auditor, writer) = Auditor::new(settings, sink);
    tokio::spawn(writer.run());
    full.store(true, Ordering::SeqCst);
    let layer = AuditLayer::new(auditor.clone());
    let answered = Arc::new(Mutex::new(0));
    let (counting, calling) = (answered.clone(), layer.clone());
    let calls = tokio::spawn(async move {
        for _ in 0..20 {
            call(calling.clone()).await;
            *counting.lock().unwrap() += 1;
        }
    });
    tokio::time::sleep(Duration::from_secs(60)).await;
    let early = *answered.lock().unwrap();
    assert!((1..20).contains(&early), "{early}");
    // A call that is given up while its answer waits is an event all the same.
    assert!(tokio::time::timeout(Duration::from_secs(1), call(layer)).await.is_err());
    full.store(false, Ordering::SeqCst);
    calls.await.unwrap();
    auditor.flush().await;
    assert_eq!(log.lines().len(), 21);
    assert_eq!(auditor.counts(), Counts { written: 21, dropped: 0, failed: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_close_does_not_wait_for_a_disk_that_stays_full() {
    let (_log, full, sink) = failing();
    full.store(true, Ordering::SeqCst);
    let settings = Settings { overflow: Overflow::Wait, ..Settings::default() };
    let (auditor, writer) = Auditor::new(settings, sink);
    let writing = tokio::spawn(writer.run());
    call(AuditLayer::new(auditor.clone())).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    auditor.close();
    writing.await.unwrap();
    assert_eq!(auditor.counts(), Counts { written: 0, dropped: 0, failed: 1 });
}

#[tokio::test(start_paused = true)]
async fn what_was_recorded_before_the_close_is_written() {
    let log = Log::default();
    let (auditor, writer) = Auditor::new(Settings::default(), log.sink());
    let writing = tokio::spawn(writer.run());
    let layer = AuditLayer::new(auditor.clone());
    for _ in 0..3 {
        call(layer.clone()).await;
    }
    auditor.close();
    writing.await.unwrap();
    assert_eq!(log.lines().len(), 3);
    // Nobody hangs on a writer that is gone.
    auditor.flush().await;
    call(layer).await;
    assert_eq!(auditor.counts().dropped, 1);
}

#[tokio::test(start_paused = true)]
async fn the_writer_ends_with_its_last_auditor() {
    let (auditor, writer) = Auditor::new(Settings::default(), Log::default().sink());
    let writing = tokio::spawn(writer.run());
    drop(AuditLayer::new(auditor.clone()));
    drop(auditor);
    writing.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_panics_hangs_nobody() {
    let settings = Settings { overflow: Overflow::Wait, queue_bytes: 1000, ..Settings::default() };
    let (told, _guard) = captured();
    let (auditor, writer) = Auditor::new(settings, |_: &[u8]| panic!("on purpose"));
    let writing = tokio::spawn(writer.run());
    let layer = AuditLayer::new(auditor.clone());
    auditor.record(crate::Event::new(EventType::Ping, crate::Outcome::Success, auditor.now()));
    for _ in 0..3 {
        call(layer.clone()).await;
    }
    auditor.flush().await;
    auditor.close();
    writing.await.unwrap();
    assert_eq!(told.lines().len(), 1);
    let Counts { written, dropped, failed } = auditor.counts();
    assert_eq!((written, dropped + failed), (0, 4));
    assert!(failed > 0 && dropped > 0);
}

/// Counts how often it is reopened.
struct Reopened(Arc<Mutex<u32>>, bool);

impl crate::Sink for Reopened {
    fn write(&mut self, _lines: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn reopen(&mut self) -> io::Result<()> {
        *self.0.lock().unwrap() += 1;
        if self.1 { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }
}

#[tokio::test(start_paused = true)]
async fn the_log_is_reopened_on_request_even_if_nothing_happens() {
    for works in [true, false] {
        let times = Arc::new(Mutex::new(0));
        let (auditor, writer) = Auditor::new(Settings::default(), Reopened(times.clone(), works));
        tokio::spawn(writer.run());
        auditor.reopen();
        auditor.flush().await;
        assert_eq!(*times.lock().unwrap(), 1);
        call(AuditLayer::new(auditor.clone())).await;
        auditor.flush().await;
        assert_eq!((auditor.counts().written, *times.lock().unwrap()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn events_of_the_gateway_itself_are_written_with_their_members() {
    use crate::{Event, Fact, Outcome};
    let component = Some("edge".into());
    let settings = Settings { include_request_data: true, component, ..Settings::default() };
    let fixture = Fixture::new(settings);
    let now = fixture.auditor.now();
    let event = Event::new(EventType::WorkflowFailed, Outcome::Failure, now)
        .caller(&Identity::new("i", "s"))
        .target("workflow", "deploy")
        .with_target("workflow_id", "7")
        .with_fact("step_count", Fact::Number(3))
        .with_fact("condition", Fact::Text("x".repeat(999).into()))
        .duration(Duration::from_millis(12))
        .request(br#"{"password":"c4n4ry"}"#.to_vec())
        .response(b"left out".to_vec());
    fixture.auditor.record(event);
    let event = fixture.event().await;
    assert_eq!(event["component"], "edge");
    assert_eq!(event["source"], json!({"type": "local", "value": "vmcp-composer"}));
    assert_eq!(event["target"], json!({"type": "workflow", "name": "deploy", "workflow_id": "7"}));
    assert_eq!(event["metadata"]["extra"]["step_count"], 3);
    assert_eq!(event["metadata"]["extra"]["condition"].as_str().unwrap().len(), 512);
    assert_eq!(event["data"], json!({"request": "{\"password\":\"[redacted]\"}"}));
}

#[tokio::test(start_paused = true)]
async fn no_secret_is_in_an_event_a_debug_form_or_the_log() {
    let (told, _guard) = captured();
    let fixture = Fixture::new(Settings::default());
    let service = serve(CALL, |trail| {
        let identity = Identity::builder("i", "s").token("c4n4ry".into());
        let claims = json!({"jti": "c4n4ry", "groups": ["c4n4ry"]});
        trail.note_identity(&identity.claims(claims.as_object().unwrap().clone()).build());
        json_answer(r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"Bearer c4n4ry"}}"#)
    });
    let mut request = post();
    request.headers_mut().insert("authorization", "Bearer c4n4ry".parse().unwrap());
    let response = fixture.layer.layer(service).oneshot(request).await.unwrap();
    response.into_body().collect().await.unwrap();
    let event = fixture.event().await.to_string();
    assert!(event.contains("Bearer [redacted]"), "{event}");
    let told = format!("{event}{:?}{:?}", told.lines(), fixture.layer);
    assert!(!told.contains("c4n4ry"), "{told}");
}
