//! Interleaved server requests of one backend to two clients.

use std::time::Duration;

use vmcp_tests::counterparts::{Era, Fixture, Gateway, ServerRequestReport, ask, skipped};
use vmcp_tests::fixture::Generation;

const CALLS: usize = 5;

/// Asserts that each call triggered its own server request once, and got its own response.
fn assert_nothing_crossed(asked: &ServerRequestReport, name: &str) {
    let mut questions = asked.asked.clone();
    questions.sort();
    let expected: Vec<String> = (0..CALLS).map(|number| format!("{name}-{number}")).collect();
    assert_eq!(questions, expected);
    for call in &asked.answers {
        assert!(call.answer.contains(&format!("\"{}\"", call.message)), "{name}: {call:?}");
        assert!(call.answer.contains(&format!("{name}@example.com")), "{name}: {call:?}");
    }
    assert_eq!(asked.answers.len(), CALLS);
}

async fn assert_questions_stay_apart(url: &str, ann: Era, bob: Era) {
    let pause = Duration::from_millis;
    let (ann, bob) = tokio::join!(
        ask(url, ann, "test_elicitation", "ann", CALLS, pause(120)),
        ask(url, bob, "test_elicitation", "bob", CALLS, pause(70)),
    );
    assert_nothing_crossed(&ann.unwrap(), "ann");
    assert_nothing_crossed(&bob.unwrap(), "bob");
}

#[tokio::test(flavor = "multi_thread")]
async fn interleaved_server_requests_stay_separate_directly() {
    if skipped() {
        return;
    }
    let fixture = Fixture::start(Generation::Both).await.unwrap();
    assert_questions_stay_apart(fixture.url(), Era::Legacy, Era::Modern).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn interleaved_server_requests_of_backend_stay_separate() {
    if skipped() {
        return;
    }
    for generation in [Generation::Stateful, Generation::Stateless] {
        let fixture = Fixture::start(generation).await.unwrap();
        let gateway = Gateway::before(fixture.url()).await.unwrap();
        for (ann, bob) in
            [(Era::Legacy, Era::Legacy), (Era::Modern, Era::Modern), (Era::Legacy, Era::Modern)]
        {
            assert_questions_stay_apart(gateway.url(), ann, bob).await;
        }
    }
}
