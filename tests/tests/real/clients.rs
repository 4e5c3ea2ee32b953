//! Clients of other projects, in each era that they support.

use vmcp_tests::counterparts::{Client, ClientReport, Era, Fixture, Gateway, Plan, skipped};
use vmcp_tests::fixture::Generation;

fn plan() -> Plan {
    let arguments = [("arg1", "one"), ("arg2", "two")];
    Plan {
        tool: Some("test_simple_text".to_owned()),
        resource: Some("test://static-text".to_owned()),
        prompt: Some("test_prompt_with_arguments".to_owned()),
        prompt_arguments: arguments.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..Plan::default()
    }
}

fn assert_saw_everything(seen: &ClientReport, who: &str) {
    assert!(seen.tools.iter().any(|tool| tool == "fixture_whoami"), "{who}: {seen:?}");
    assert!(seen.resources.iter().any(|uri| uri == "test://static-text"), "{who}: {seen:?}");
    assert!(seen.prompts.iter().any(|prompt| prompt == "test_simple_prompt"), "{who}: {seen:?}");
    assert_eq!(seen.call.as_deref(), Some("This is a simple text response for testing."), "{who}");
    assert!(!seen.failed, "{who}");
    assert_eq!(
        seen.resource.as_deref(),
        Some("This is the content of the static text resource."),
        "{who}"
    );
    assert_eq!(
        seen.prompt.as_deref(),
        Some("Prompt with arguments: arg1='one', arg2='two'"),
        "{who}"
    );
}

/// Runs every client in every era, and reports all failures.
async fn assert_all_clients_work(url: &str) {
    let mut faults = Vec::new();
    for client in Client::ALL {
        for era in client.eras() {
            let who = format!("{client:?} in era {}", era.name());
            let seen = match client.run(url, *era, &plan()).await {
                Ok(seen) => seen,
                Err(fault) => {
                    faults.push(format!("{who}: {fault}"));
                    continue;
                }
            };
            assert_saw_everything(&seen, &who);
            if let Some(protocol) = &seen.protocol {
                let expected = if *era == Era::Legacy { "2025-11-25" } else { "2026-07-28" };
                assert_eq!(protocol, expected, "{who}");
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn real_clients_list_and_call_directly() {
    if skipped() {
        return;
    }
    let fixture = Fixture::start(Generation::Both).await.unwrap();
    assert_all_clients_work(fixture.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn real_clients_list_and_call_through_the_gateway() {
    if skipped() {
        return;
    }
    for generation in [Generation::Stateful, Generation::Stateless] {
        let fixture = Fixture::start(generation).await.unwrap();
        let gateway = Gateway::before(fixture.url()).await.unwrap();
        assert_all_clients_work(gateway.url()).await;
    }
}
