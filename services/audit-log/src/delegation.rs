//! Delegation: the actors in the `act` claim (RFC 8693 section 4.1).

use serde_json::{Map, Value};
use vmcp_audit::BoundedText;
use vmcp_core::{Claim, Claims};

use crate::json::Object;

/// Maximum number of actors in an event; the current one comes first.
const MAX_ACTORS: usize = 10;

/// Maximum number of nested actors to count.
const MAX_NESTED_ACTORS: usize = 100;

/// Writes the member `delegation` if the token names an actor.
pub(crate) fn write(claims: &Claims, line: &mut Object<'_>) {
    let Some(act) = claims.get("act").map(Claim::value) else { return };
    let (actors, problem) = actors(&act);
    line.object("delegation", |members| {
        members.name("chain");
        members.out.push(b'[');
        for (index, actor) in actors.iter().take(MAX_ACTORS).enumerate() {
            if index > 0 {
                members.out.push(b',');
            }
            Object::write(members.out, |members| {
                for claim in ["iss", "sub"] {
                    let value = actor.get(claim).and_then(Value::as_str);
                    members.text(claim, value.map(BoundedText::truncate));
                }
            });
        }
        members.out.push(b']');
        if let Some(omitted) = actors.len().checked_sub(MAX_ACTORS).filter(|more| *more > 0) {
            members.display("truncated", Some(true));
            members.display("omitted", Some(omitted));
        }
        if let Some(problem) = problem {
            members.display("malformed", Some(true));
            members.text("malformedReason", problem);
        }
    });
}

/// Returns the actors, the current one first, up to the first malformed one.
fn actors(act: &Value) -> (Vec<&Map<String, Value>>, Option<&'static str>) {
    let mut actors = Vec::new();
    let mut next = Some(act);
    while let Some(act) = next.filter(|_| actors.len() < MAX_NESTED_ACTORS) {
        let Value::Object(actor) = act else {
            return (actors, Some("an actor is not an object"));
        };
        if !actor.get("sub").is_some_and(Value::is_string) {
            return (actors, Some("an actor has no subject"));
        }
        actors.push(actor);
        next = actor.get("act");
    }
    (actors, None)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(claims: &Value) -> Value {
        let mut out = Vec::new();
        let claims = Claims::from(claims.as_object().unwrap().clone());
        Object::write(&mut out, |line| write(&claims, line));
        serde_json::from_slice::<Value>(&out).unwrap()["delegation"].clone()
    }

    #[test]
    fn current_actor_comes_first() {
        let chain = json!({"act": {"sub": "b", "iss": "i", "act": {"sub": "a"}, "email": "x"}});
        assert_eq!(written(&chain), json!({"chain": [{"iss": "i", "sub": "b"}, {"sub": "a"}]}));
        assert_eq!(written(&json!({"sub": "x"})), Value::Null);
    }

    #[test]
    fn truncates_and_counts_long_chain() {
        let mut act = json!({"sub": "0"});
        for actor in 1..13 {
            act = json!({"sub": actor.to_string(), "act": act});
        }
        let written = written(&json!({"act": act}));
        assert_eq!(written["chain"].as_array().unwrap().len(), 10);
        assert_eq!((&written["truncated"], &written["omitted"]), (&json!(true), &json!(3)));
    }

    #[test]
    fn reports_malformed_actors() {
        for act in [json!("x"), json!({"sub": 1}), json!({"sub": "a", "act": []})] {
            assert_eq!(written(&json!({"act": act}))["malformed"], true);
        }
    }
}
