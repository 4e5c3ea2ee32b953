use super::*;
use serde_json::json;

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        other => panic!("{other}"),
    }
}

#[test]
fn a_path_descends_through_objects_and_arrays() {
    let answer = object(json!({"a": {"b": [{"c": 1}]}, "x.y": 2}));
    assert_eq!(Path::new("a.b.0.c").unwrap().find(&answer), Some(&json!(1)));
    assert_eq!(Path::new("a.b.1.c").unwrap().find(&answer), None);
    assert_eq!(Path::new("x.y").unwrap().find(&answer), None);
}
