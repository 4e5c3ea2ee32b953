//! Streams and responses after token expiry.

use std::time::{Duration, SystemTime};

use serde_json::json;
use vmcp_tests::authority::Authority;
use vmcp_tests::backends::conforming_server;
use vmcp_tests::caller::Caller;
use vmcp_tests::fixture::Generation;

use crate::common::{config, ready};

/// Allowed clock skew.
const LEEWAY: Duration = Duration::from_secs(30);

const AUDIENCE: &str = "http://localhost/mcp";

#[tokio::test(flavor = "multi_thread")]
async fn serves_normally_within_token_leeway() {
    let authority = Authority::start().unwrap();
    for generation in [Generation::Stateful, Generation::Stateless] {
        let good = conforming_server("a").protocol(generation).start();
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
            // The response's stream contains the response.
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

#[tokio::test(flavor = "multi_thread")]
async fn response_outlives_token_but_notification_stream_does_not() {
    let authority = Authority::start().unwrap();
    let good = conforming_server("a").protocol(Generation::Stateful).start();
    let yaml = config([("a", good.url())], "");
    let open = "incomingAuth: {type: anonymous}\n";
    let gateway = ready(&yaml.replace(open, &authority.section(AUDIENCE))).await;
    let url = gateway.url();
    let long = authority.token("ann", AUDIENCE, 1);
    let mut ann = Caller::stateful_with_token(url, json!({ "elicitation": { "form": {} } }), &long)
        .await
        .unwrap();
    let mut eve = Caller::stateless_as(url, &long);
    // Valid for two more seconds.
    let until = SystemTime::now() - LEEWAY + Duration::from_secs(2);
    let short = authority.token_until("ann", AUDIENCE, 2, until);
    ann.comes_with(&short);
    eve.comes_with(&short);
    let mut news = [ann.listen().await.unwrap(), eve.listen().await.unwrap()];
    let params = json!({ "name": "a_ask", "arguments": { "question": "how long?" } });
    let mut answer = ann.stream("tools/call", params).await.unwrap();
    let question = answer.next().await.unwrap().unwrap();
    for stream in &mut news {
        let ended = stream.next().await.unwrap();
        assert_eq!(ended, None);
    }
    assert_eq!(ann.reply("ping", json!({})).await.unwrap().status, 401);
    ann.comes_with(&long);
    let result = json!({ "action": "accept", "content": { "word": "longer" } });
    let reply = json!({ "jsonrpc": "2.0", "id": question["id"], "result": result });
    assert_eq!(ann.post(&reply).await.unwrap().status, 202);
    let answered = answer.next().await.unwrap().unwrap();
    let word = &answered["result"]["structuredContent"]["answer"]["content"]["word"];
    assert_eq!(word, "longer", "{answered}");
}
