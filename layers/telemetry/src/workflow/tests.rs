use std::time::Duration;

use opentelemetry::trace::{SpanKind, Status};
use tower::ServiceExt;
use tower_layer::Layer;

use super::*;
use crate::testing::{Fixture, PARENT};
use crate::trace_link::{SpanPosition, later_context};

/// Returns the context of a request with the given parent.
async fn request(fixture: &Fixture) -> RequestContext {
    let inner = tower::service_fn(|request: http::Request<()>| async move {
        let mut response = http::Response::new(vmcp_core::Body::empty());
        let context = request.extensions().get::<RequestContext>().cloned();
        response.extensions_mut().insert(context.unwrap_or_default());
        Ok::<_, std::convert::Infallible>(response)
    });
    let request = http::Request::post("/mcp").header("traceparent", PARENT).body(()).unwrap();
    let response = fixture.recorder.server_layer().layer(inner).oneshot(request).await.unwrap();
    response.extensions().get::<RequestContext>().cloned().unwrap()
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn steps_are_children_of_run() {
    let fixture = Fixture::new(true);
    let request = request(&fixture).await;
    let run = RunObserver::new(&request, "approve").unwrap();
    let step = run.start_step("act", Some("a.echo"));
    let spans = recorder_of(&request).unwrap().spans.as_deref();
    let call = SpanPosition::for_client_request(spans, None, Some(step.context())).unwrap();
    step.end(StepOutcome::Completed, SECOND);
    run.end("id", RunOutcome::Completed, SECOND);
    let [server, step, run] = &fixture.spans()[..] else { panic!("three spans") };
    assert_eq!((&*run.name, &*step.name), ("invoke_workflow approve", "step act"));
    let parent = |span: &EndedSpan| span.parent.as_ref().unwrap().span_id();
    assert_eq!(parent(run), server.context.span_id());
    assert_eq!(parent(step), run.context.span_id());
    assert_eq!(call.parent.unwrap().span_id(), step.context.span_id());
    assert_eq!(run.context.trace_id(), server.context.trace_id());
    assert_eq!((&run.kind, &run.status), (&SpanKind::Internal, &Status::Ok));
    let attribute = |span, key| fixture.attribute(span, key).unwrap();
    assert_eq!(attribute(run, "vmcp.workflow.id"), "id");
    assert_eq!(attribute(step, "gen_ai.tool.name"), "a.echo");
    assert_eq!(attribute(step, "vmcp.workflow.outcome"), "completed");
}

#[tokio::test]
async fn later_run_belongs_to_trace_of_request() {
    let fixture = Fixture::new(true);
    let request = request(&fixture).await;
    let later = later_context(&request).unwrap();
    assert!(later.message().is_none());
    drop(request);
    RunObserver::new(&later, "approve").unwrap().end("id", RunOutcome::TimedOut, SECOND);
    let [server, run] = &fixture.spans()[..] else { panic!("two spans") };
    assert_eq!(run.parent.as_ref().unwrap().span_id(), server.context.span_id());
    assert_eq!(fixture.count("vmcp_workflow_runs"), 1);
}

#[tokio::test]
async fn suspended_part_is_not_counted() {
    let fixture = Fixture::new(true);
    let request = request(&fixture).await;
    let run = RunObserver::new(&request, "approve").unwrap();
    run.start_step("ask", None).suspend();
    run.end("id", RunOutcome::Suspended, SECOND);
    let [_, step, run] = &fixture.spans()[..] else { panic!("three spans") };
    for span in [step, run] {
        let outcome = fixture.attribute(span, "vmcp.workflow.outcome");
        assert_eq!((outcome.as_deref(), &span.status), (Some("input_required"), &Status::Unset));
    }
    assert_eq!(fixture.count("vmcp_workflow_runs") + fixture.count("vmcp_workflow_steps"), 0);
}

#[tokio::test]
async fn counts_without_tracing() {
    let fixture = Fixture::new(None);
    let request = request(&fixture).await;
    let run = RunObserver::new(&request, "approve").unwrap();
    run.start_step("a", None).end(StepOutcome::Failed, SECOND);
    run.count_step(StepOutcome::Skipped);
    run.end("id", RunOutcome::Failed, 2 * SECOND);
    assert_eq!(fixture.spans().len(), 0);
    let expected = "gen_ai.tool.name=approve vmcp.workflow.outcome=failed".to_owned();
    assert_eq!(fixture.labels("vmcp_workflow_runs"), [(expected, 1)]);
    let steps = ["failed", "skipped"].map(|it| (format!("vmcp.workflow.outcome={it}"), 1));
    assert_eq!(fixture.labels("vmcp_workflow_steps"), steps);
    assert!((fixture.sum("vmcp_workflow_duration") - 2.0).abs() < 0.001);
    assert!((fixture.sum("vmcp_workflow_step_duration") - 1.0).abs() < 0.001);
}

#[test]
fn unobserved_request_has_no_observer() {
    assert!(RunObserver::new(&RequestContext::default(), "approve").is_none());
}
