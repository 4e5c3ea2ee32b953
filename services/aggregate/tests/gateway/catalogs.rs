//! Catalogs of backends that change, fail or mean harm.

use serde_json::json;
use vmcp_core::{Admission, Admit, Generation, Item, Verdict, ViewKey};

use crate::fake::{Client, Fake, gateway};

const BOTH: [Generation; 2] = [Generation::Stateful, Generation::Stateless];

#[tokio::test(start_paused = true)]
async fn survives_templates_of_thousands_of_expressions() {
    for generation in BOTH {
        let hostile = json!({"resourceTemplates": [
            {"uriTemplate": "{?a}".repeat(19_900), "name": "h"},
            {"uriTemplate": "{+a}{+b}!".repeat(2_000), "name": "h"},
        ]});
        let good = json!({"resourceTemplates": [{"uriTemplate": "t://{n}", "name": "g"}]});
        let hostile = Fake::new("bad", generation).offer("*", hostile);
        let good = Fake::new("good", generation).offer("*", good);
        let gateway = gateway(&[hostile, good]).await;
        for client in BOTH {
            let client = Client::new(&gateway, client, "").await;
            let read = client.ask("resources/read", json!({"uri": "t://1"})).await;
            assert_eq!(read.json()["result"]["content"][0]["text"], "good:nobody", "{read:?}");
            let long = "?".to_owned() + &"a".repeat(100_000);
            let read = client.ask("resources/read", json!({"uri": long})).await;
            let message = read.json()["error"]["message"].to_string();
            assert!(message.contains("unknown resource"), "{message}");
        }
    }
}

/// Hides everything.
struct Hides;

impl Admit for Hides {
    fn visible(&self, _: &Item<'_>) -> bool {
        false
    }

    fn admit(&self, _: &Item<'_>, _: Option<&[u8]>) -> Verdict {
        Verdict::Hidden
    }

    fn view(&self) -> ViewKey {
        ViewKey([0; 16])
    }
}

#[tokio::test(start_paused = true)]
async fn judges_a_resource_before_matching_templates() {
    let hostile = json!({"resourceTemplates": [{"uriTemplate": "{+a}{+b}!", "name": "h"}]});
    let gateway = gateway(&[Fake::new("bad", BOTH[1]).offer("*", hostile)]).await;
    let client = Client::new(&gateway, BOTH[1], "a").await.with(Admission::new(Hides));
    let read = client.ask("resources/read", json!({"uri": "x://y"})).await;
    assert_eq!(read.trail.denied(), Some("hidden from the caller"), "judged before it is found");
}
