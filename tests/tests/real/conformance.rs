//! The MCP conformance suite, directly against the fixture and through the gateway in all four combinations of
//! generations.

use vmcp_tests::authority::Authority;
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::{
    Fixture, Gateway, Report, Revision, run_suite, run_suite_as, scenarios, skipped,
};
use vmcp_tests::fixture::Generation;

/// Number of checks per revision for a server with all capabilities.
const CHECKS_2025_11_25: usize = 70;
const CHECKS_2026_07_28: usize = 119;

async fn directly(generation: Generation, revision: Revision) -> Report {
    let fixture = Fixture::start(generation).await.unwrap();
    run_suite(fixture.url(), revision).await.unwrap()
}

async fn through_the_gateway(generation: Generation, revision: Revision) -> Report {
    let fixture = Fixture::start(generation).await.unwrap();
    let gateway = Gateway::before(fixture.url()).await.unwrap();
    run_suite(gateway.url(), revision).await.unwrap()
}

fn assert_full_marks(report: &Report, checks: usize) {
    let unmet: Vec<String> = report.unmet().map(ToString::to_string).collect();
    assert!(unmet.is_empty(), "{report}:\n{}", unmet.join("\n"));
    assert_eq!((report.passed(), report.made()), (checks, checks));
}

#[tokio::test(flavor = "multi_thread")]
async fn fixture_passes_directly_2025_11_25() {
    if skipped() {
        return;
    }
    for generation in [Generation::Both, Generation::Stateful] {
        assert_full_marks(&directly(generation, Revision::V2025_11_25).await, CHECKS_2025_11_25);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fixture_passes_directly_2026_07_28() {
    if skipped() {
        return;
    }
    for generation in [Generation::Both, Generation::Stateless] {
        assert_full_marks(&directly(generation, Revision::V2026_07_28).await, CHECKS_2026_07_28);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_scores_the_same_2025_11_25() {
    if skipped() {
        return;
    }
    assert_full_marks(
        &through_the_gateway(Generation::Stateful, Revision::V2025_11_25).await,
        CHECKS_2025_11_25,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_scores_the_same_2026_07_28() {
    if skipped() {
        return;
    }
    assert_full_marks(
        &through_the_gateway(Generation::Stateless, Revision::V2026_07_28).await,
        CHECKS_2026_07_28,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_generation_of_one_backend_scores_as_directly() {
    if skipped() {
        return;
    }
    let fixture = Fixture::start(Generation::Differing).await.unwrap();
    let gateway = Gateway::before(fixture.url()).await.unwrap();
    for (revision, checks) in
        [(Revision::V2025_11_25, CHECKS_2025_11_25), (Revision::V2026_07_28, CHECKS_2026_07_28)]
    {
        assert_full_marks(&run_suite(fixture.url(), revision).await.unwrap(), checks);
        assert_full_marks(&run_suite(gateway.url(), revision).await.unwrap(), checks);
    }
}

/// Prints every check that the mixed combination loses, and fails for losses without a listed reason.
async fn assert_only_known_losses(
    generation: Generation,
    revision: Revision,
    known: &[(&str, &str)],
) {
    let before = directly(Generation::Both, revision).await;
    let now = through_the_gateway(generation, revision).await;
    eprintln!("{}", now.diff(&before));
    let lost = now.lost(&before);
    for (id, reason) in known.iter().filter(|(id, _)| lost.iter().any(|lost| lost.before.id == *id))
    {
        eprintln!("  {id} cannot hold: {reason}");
    }
    let unexplained: Vec<String> = lost
        .iter()
        .filter(|lost| !known.iter().any(|(id, _)| lost.before.id == *id))
        .map(ToString::to_string)
        .collect();
    assert!(unexplained.is_empty(), "lost without a reason:\n{}", unexplained.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn stateful_client_stateless_backend_prints_each_lost_check() {
    if skipped() {
        return;
    }
    assert_only_known_losses(Generation::Stateless, Revision::V2025_11_25, &[]).await;
}

const NO_KEY: &str = "the suite expects the key of the fixture's question; a question of the older revision has none";

/// Checks that depend on information a backend from before 2026-07-28 cannot provide through any gateway.
const BEYOND_A_STATEFUL_BACKEND: &[(&str, &str)] = &[
    (
        "sep-2575-server-rejects-undeclared-capability",
        "the older revision has no such error: the backend says in its own words that the client lacks sampling",
    ),
    ("sep-2575-missing-capability-http-400", "the older revision has no such error"),
    ("sep-2322-elicitation-incomplete", NO_KEY),
    ("sep-2322-elicitation-complete", NO_KEY),
    (
        "sep-2322-ignore-unexpected-params",
        "the suite answers a question that the backend has not asked yet; the older revision cannot carry that",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn stateless_client_stateful_backend_prints_each_lost_check() {
    if skipped() {
        return;
    }
    assert_only_known_losses(
        Generation::Stateful,
        Revision::V2026_07_28,
        BEYOND_A_STATEFUL_BACKEND,
    )
    .await;
}

/// Runs the suite through a gateway with authentication and policies, in front of a backend of the same generation.
async fn with_a_token(generation: Generation, revision: Revision) -> Report {
    let audience = "http://localhost/mcp";
    let authority = Authority::start().unwrap();
    let fixture = Fixture::start(generation).await.unwrap();
    let yaml = format!(
        "name: tests\n\
         {}  authz: {{type: cedar, policies: ['permit(principal == Client::\"ann\", action, resource);']}}\n\
         backends:\n\
         - {{name: fixture, url: \"{}\", transport: streamable-http}}\n\
         aggregation:\n  \
           conflictResolution: priority\n  \
           conflictResolutionConfig: {{priorityOrder: [fixture]}}\n",
        authority.section(audience),
        fixture.url(),
    );
    let gateway = Gateway::start(&yaml).await.unwrap();
    let token = authority.token("ann", audience, 1);
    run_suite_as(gateway.url(), revision, &token).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn authenticated_client_scores_the_same() {
    if skipped() {
        return;
    }
    for (generation, revision, checks) in [
        (Generation::Stateful, Revision::V2025_11_25, CHECKS_2025_11_25),
        (Generation::Stateless, Revision::V2026_07_28, CHECKS_2026_07_28),
    ] {
        assert_full_marks(&with_a_token(generation, revision).await, checks);
    }
}

/// Runs the suite through a gateway with further sections in its configuration, and returns the tools that it lists.
async fn with_sections(
    generation: Generation,
    revision: Revision,
    sections: &str,
) -> (Report, Vec<String>) {
    let fixture = Fixture::start(generation).await.unwrap();
    let yaml = format!(
        "name: tests\nincomingAuth: {{type: anonymous}}\nbackends:\n\
         - {{name: fixture, url: \"{}\", transport: streamable-http}}\n\
         aggregation:\n  \
           conflictResolution: priority\n  \
           conflictResolutionConfig: {{priorityOrder: [fixture]}}\n{sections}",
        fixture.url(),
    );
    let gateway = Gateway::start(&yaml).await.unwrap();
    let report = run_suite(gateway.url(), revision).await.unwrap();
    let mut tools = Caller::stateful(gateway.url()).await.unwrap().tools().await.unwrap();
    tools.sort();
    (report, tools)
}

const SAME_GENERATION: [(Generation, Revision, usize); 2] = [
    (Generation::Stateful, Revision::V2025_11_25, CHECKS_2025_11_25),
    (Generation::Stateless, Revision::V2026_07_28, CHECKS_2026_07_28),
];

/// Composite tools with a question, a `forEach` and an output. The suite requires a description of each listed tool.
const COMPOSITES: &str = r#"
compositeTools:
- name: composed
  description: Calls a tool for each name after a question.
  parameters: {type: object, properties: {names: {type: array, items: {type: string}}}}
  steps:
  - {id: ask, type: elicitation, message: "Go on?", schema: {type: object, properties: {}}}
  - {id: each, type: forEach, dependsOn: [ask], collection: "{{json .params.names}}", step: {tool: fixture.test_simple_text}}
  output: {properties: {done: {type: integer, value: "{{.steps.each.output.completed}}"}}}
- name: plain
  description: Calls one tool.
  steps: [{id: only, tool: fixture.test_simple_text}]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn composites_leave_the_score_unchanged() {
    if skipped() {
        return;
    }
    for (generation, revision, checks) in SAME_GENERATION {
        let (report, tools) = with_sections(generation, revision, COMPOSITES).await;
        assert_full_marks(&report, checks);
        assert!(["composed", "plain"].iter().all(|name| tools.contains(&(*name).to_owned())));
    }
}

/// No scenario differs: those of `tools/list` check the form of each listed tool, which the two of the search have too, and
/// those that call a tool by its name still can.
#[tokio::test(flavor = "multi_thread")]
async fn tool_search_leaves_the_score_unchanged() {
    if skipped() {
        return;
    }
    for (generation, revision, checks) in SAME_GENERATION {
        for composites in ["", COMPOSITES] {
            let sections = format!("optimizer: {{}}\n{composites}");
            let (report, tools) = with_sections(generation, revision, &sections).await;
            assert_full_marks(&report, checks);
            assert_eq!(tools, ["call_tool", "find_tool"]);
        }
    }
}

/// Reasons why the suite's authorization scenarios do not apply to a resource server.
const AUTHORIZATION: [(&str, &str); 2] = [
    ("Client", "the suite is the server, and looks at an OAuth client that it starts"),
    (
        "Authorization server",
        "the suite is the client of an authorization server, and asks for no resource",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn suite_has_no_authorization_scenario_for_resource_servers() {
    if skipped() {
        return;
    }
    let about = |part: &str, name: &str| {
        part.starts_with("Authorization")
            || ["auth", "token", "scope", "protected", "oidc", "bearer"]
                .iter()
                .any(|word| name.contains(word))
    };
    let all = scenarios().await.unwrap();
    let all: Vec<_> = all.into_iter().filter(|(part, name)| about(part, name)).collect();
    for (part, reason) in AUTHORIZATION {
        let names: Vec<_> =
            all.iter().filter(|(of, _)| of == part).map(|(_, name)| name.as_str()).collect();
        assert!(!names.is_empty(), "no scenario of {part}");
        eprintln!("not run, {}: {reason}: {}", names.len(), names.join(", "));
    }
    // A scenario that appears in another part has to be run here.
    let known = |part: &str| AUTHORIZATION.iter().any(|(known, _)| *known == part);
    let new: Vec<_> = all.iter().filter(|(part, _)| !known(part)).collect();
    assert!(new.is_empty(), "{new:?}");
}
