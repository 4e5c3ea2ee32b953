//! What becomes of streams and answers when tokens end.

use std::time::{Duration, SystemTime};

use serde_json::json;
use vmcp_tests::authority::Authority;
use vmcp_tests::backends::Good;
use vmcp_tests::caller::Caller;
use vmcp_tests::fixture::Generation;

use crate::common::{config, ready};

const AUDIENCE: &str = "http://localhost/mcp";

#[tokio::test(flavor = "multi_thread")]
async fn who_is_let_in_within_the_leeway_is_answered_like_everybody_else() {
    let authority = Authority::start().unwrap();
    for generation in [Generation::Stateful, Generation::Stateless] {
        let good = Good::named("a").speaking(generation).start().unwrap();
        let yaml = config([("a", good.url())], "");
        let open = "incomingAuth: {type: anonymous}\n";
        let gateway = ready(&yaml.replace(open, &authority.section(AUDIENCE))).await;
        // The gateway's clock may be ahead of the issuer's.
        let over = SystemTime::now() - Duration::from_secs(5);
        let token = authority.token_until("ann", AUDIENCE, 1, over);
        let url = gateway.url();
        let mut callers =
            [Caller::stateful_as(url, &token).await.unwrap(), Caller::stateless_as(url, &token)];
        for (number, caller) in callers.iter_mut().enumerate() {
            // The stream of the answer has the answer in it.
            let params =
                json!({ "name": "a_stream", "arguments": {}, "_meta": { "progressToken": 1 } });
            let answer = caller.ask("tools/call", params).await.unwrap();
            assert!(answer["result"].is_object(), "{generation:?}: {answer}");
            let mut stream = caller.listen().await.unwrap();
            good.add_tool(&format!("new_{number}"));
            let change = stream.next().await.unwrap();
            let change = change.unwrap_or_else(|| panic!("{generation:?}: the stream has ended"));
            assert_eq!(change["method"], "notifications/tools/list_changed", "{generation:?}");
        }
    }
}
