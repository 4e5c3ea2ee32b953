//! The verdicts on each object are those of Kubernetes' own code.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use serde_json::Value;
use vmcp_structural_schema::Schema;

const VECTORS: &str = include_str!("vectors.json");

#[test]
fn verdicts_are_those_of_api_server() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let mut broken = Vec::new();
    let mut count = 0;
    for vector in vectors.as_array().unwrap() {
        let schema = Schema::from_value(&vector["schema"]).unwrap();
        for expected in vector["objects"].as_array().unwrap() {
            let mut object = expected["object"].clone();
            let unknown = schema.prune(&mut object);
            schema.apply_defaults(&mut object);
            let mut errors: Vec<_> = schema
                .validate(&object, expected.get("old"))
                .iter()
                .map(ToString::to_string)
                .collect();
            errors.sort();
            let mut wanted = texts(&expected["errors"]);
            wanted.sort();
            count += 1;
            if (&object, &errors, &unknown)
                != (&expected["result"], &wanted, &texts(&expected["unknown"]))
            {
                broken.push(format!(
                    "{}\n  {object} {unknown:?} {errors:#?}\nnot\n  {} {wanted:#?}",
                    expected["object"], expected["result"]
                ));
            }
        }
    }
    assert!(count > 60, "{count} objects");
    assert!(broken.is_empty(), "{}", broken.join("\n\n"));
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.map(|item| item.as_str().unwrap().to_owned()).collect()
}
