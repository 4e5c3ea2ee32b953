//! Properties of any template in any setting.

use proptest::prelude::*;
use serde_json::json;
use vmcp_compose::{Answer, Workflow};

use crate::support::{TestEnv, User, definition_of};

const PIECES: &[&str] = &[
    "{{",
    "}}",
    "{{-",
    "-}}",
    ".",
    ".steps",
    ".steps.a",
    ".output",
    ".content.text",
    ".params.x",
    ".forEach.item",
    ".workflow.id",
    "$",
    "$x",
    " := ",
    " = ",
    "if ",
    "with ",
    "range ",
    "else",
    "end",
    "index ",
    "\"a\"",
    "json ",
    "len ",
    "eq ",
    " | ",
    "(",
    ")",
    " ",
    "1",
    "true",
    "x",
    "}",
    "{",
    "[1,2]",
    "define \"d\"",
    "template \"d\" .",
    "break",
];

fn template() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..10).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn runs_any_template_without_panic(
        argument in template(),
        condition in template(),
        message in template(),
        collection in template(),
        value in template(),
    ) {
        let definition = |condition: &str, collection: &str| json!({
            "name": "t",
            "steps": [
                {"id": "a", "tool": "w.echo", "arguments": {"x": 1}},
                {"id": "b", "tool": "w.echo", "dependsOn": ["a"], "arguments": {"x": argument}, "condition": condition,
                 "defaultResults": {"x": 1}, "onError": {"action": "continue"}},
                {"id": "c", "type": "elicitation", "dependsOn": ["b"], "message": format!("m{message}"),
                 "schema": {"type": "object"}, "onError": {"action": "continue"}, "defaultResults": {"action": "x", "content": {}}},
                {"id": "d", "type": "forEach", "dependsOn": ["c"], "collection": collection,
                 "step": {"tool": "w.echo", "arguments": {"x": argument}}, "onError": {"action": "continue"},
                 "defaultResults": {"count": 0, "iterations": [], "completed": 0, "failed": 0}},
            ],
            "output": {"properties": {"o": {"type": "string", "value": format!("{value} "), "default": "none"}}},
        });
        for definition in [definition(&condition, &format!("{collection} ")), definition("true", "[1,2]")] {
            let Ok(workflow) = Workflow::compile(&definition_of(definition), "x") else { continue };
            let user = User::new([("c", Answer::Accept(json!({})))]);
            let world = TestEnv::with_user(&user);
            _ = workflow.check(&world.lookup);
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            let outcome = runtime.block_on(world.run(&workflow, json!({"x": ["y"]})));
            prop_assert!(matches!(outcome, vmcp_compose::Outcome::Completed(_)), "{outcome:?}");
        }
    }
}
