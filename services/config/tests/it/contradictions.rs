//! Sections that cannot work together.

use vmcp_config::{File, Format};

use crate::support::file;

fn contradictions(more: &str) -> Vec<String> {
    file(more).contradictions().iter().map(ToString::to_string).collect()
}

#[test]
fn rejects_token_exchange_for_callers_without_tokens() {
    let exchange = "{type: token_exchange, tokenExchange: {tokenUrl: 'https://t'}}";
    let sts = "{type: aws_sts, awsSts: {region: eu-west-1, fallbackRoleArn: 'arn:aws:iam::123456789012:role/a'}}";
    for (strategy, kind) in [(exchange, "token_exchange"), (sts, "aws_sts")] {
        for method in ["anonymous", "local"] {
            let text = format!(
                "name: x\nincomingAuth: {{type: {method}}}\noutgoingAuth: {{source: inline, default: {strategy}}}\n"
            );
            let found = File::parse(&text, Format::Yaml).unwrap().contradictions();
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].path, "outgoingAuth.default.type");
            assert!(found[0].found.contains(&format!("{kind} with incomingAuth.type: {method}")));
        }
        let text = format!(
            "name: x\nincomingAuth: {{type: oidc, oidc: {{issuer: 'https://i', clientId: c, audience: a}}}}\n\
             outgoingAuth: {{source: inline, default: {strategy}}}\n"
        );
        assert_eq!(File::parse(&text, Format::Yaml).unwrap().contradictions(), []);
    }
}

#[test]
fn rejects_credentials_for_unknown_backends() {
    let backends = "backends: [{name: github, url: 'http://g', transport: sse}]\n";
    let outgoing = "outgoingAuth: {source: inline, backends: {gihub: {type: unauthenticated}}}\n";
    assert_eq!(
        contradictions(&format!("{backends}{outgoing}")),
        [
            "outgoingAuth.backends.gihub: found \"gihub\", which is not a backend; allowed: the name of an entry in \
          backends (did you mean github?)"
        ]
    );
    assert_eq!(contradictions(&outgoing.replace("inline", "discovered")), [""; 0]);
}

#[test]
fn rejects_steps_that_call_composite_tools() {
    let composites = "compositeTools:\n- {name: one, steps: [{id: a, tool: two}]}\n\
                      - {name: two, steps: [{id: a, type: forEach, collection: '[]', step: {tool: one}}]}\n";
    let backends = "backends: [{name: github, url: 'http://g', transport: sse}]\n";
    let expected = |path: &str, name: &str| {
        format!(
            "{path}: found \"{name}\", which is a composite tool; allowed: a tool of a backend: composite tools call \
             no others"
        )
    };
    assert_eq!(
        contradictions(&format!("{backends}{composites}")),
        [
            expected("compositeTools[0].steps[0].tool", "two"),
            expected("compositeTools[1].steps[0].step.tool", "one"),
        ]
    );
    let priority = "aggregation: {conflictResolution: priority, conflictResolutionConfig: {priorityOrder: [github]}}\n";
    let hidden = format!("{backends}{composites}{priority}");
    assert_eq!(contradictions(&hidden), [""; 0], "a hidden tool of a backend may have the name");
}
