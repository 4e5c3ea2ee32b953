//! Who acts for whom: the `act` claim (RFC 8693 section 4.1).

use serde_json::{Map, Value};
use vmcp_core::Claims;
use vmcp_wire::quote;

use crate::event::text;

/// How many actors are written; the current one comes first.
const MAX_ACTORS: usize = 10;

/// How deep nested actors are followed to be counted.
const MAX_COUNTED: usize = 100;

/// Appends `,"delegation":{…}` if the token names an actor.
pub(crate) fn write(claims: &Claims, out: &mut Vec<u8>) {
    let Some(act) = claims.get("act") else { return };
    out.extend_from_slice(b",\"delegation\":{\"chain\":[");
    let mut problem = None;
    let mut omitted = 0;
    let mut next = Some(act);
    for depth in 0..MAX_COUNTED {
        let Some(act) = next else { break };
        let Value::Object(actor) = act else {
            problem = Some("an actor is not an object");
            break;
        };
        if !actor.get("sub").is_some_and(Value::is_string) {
            problem = Some("an actor has no subject");
            break;
        }
        if depth < MAX_ACTORS {
            if depth > 0 {
                out.push(b',');
            }
            write_actor(actor, out);
        } else {
            omitted += 1;
        }
        next = actor.get("act");
    }
    out.push(b']');
    if omitted > 0 {
        out.extend_from_slice(format!(",\"truncated\":true,\"omitted\":{omitted}").as_bytes());
    }
    if let Some(problem) = problem {
        out.extend_from_slice(b",\"malformed\":true,\"malformedReason\":");
        quote(problem, out);
    }
    out.push(b'}');
}

fn write_actor(actor: &Map<String, Value>, out: &mut Vec<u8>) {
    out.push(b'{');
    for member in ["iss", "sub"] {
        let Some(value) = actor.get(member).and_then(Value::as_str) else { continue };
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        quote(member, out);
        out.push(b':');
        quote(&text(value), out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(claims: &Value) -> Value {
        let mut out = b"{\"x\":1".to_vec();
        write(&Claims::from(claims.as_object().unwrap().clone()), &mut out);
        out.push(b'}');
        serde_json::from_slice::<Value>(&out).unwrap()["delegation"].clone()
    }

    #[test]
    fn the_current_actor_comes_first() {
        let chain = json!({"act": {"sub": "b", "iss": "i", "act": {"sub": "a"}, "email": "x"}});
        assert_eq!(written(&chain), json!({"chain": [{"iss": "i", "sub": "b"}, {"sub": "a"}]}));
        assert_eq!(written(&json!({"sub": "x"})), Value::Null);
    }

    #[test]
    fn a_long_chain_is_cut_and_counted() {
        let mut act = json!({"sub": "0"});
        for actor in 1..13 {
            act = json!({"sub": actor.to_string(), "act": act});
        }
        let written = written(&json!({"act": act}));
        assert_eq!(written["chain"].as_array().unwrap().len(), 10);
        assert_eq!((&written["truncated"], &written["omitted"]), (&json!(true), &json!(3)));
    }

    #[test]
    fn nonsense_is_reported_as_such() {
        for act in [json!("x"), json!({"sub": 1}), json!({"sub": "a", "act": []})] {
            assert_eq!(written(&json!({"act": act}))["malformed"], true);
        }
    }
}
