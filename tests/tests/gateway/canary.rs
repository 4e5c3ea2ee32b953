//! Two users, each credential strategy and each pair of generations concurrently: data of one user never reaches the
//! other, and client tokens never reach a backend.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write;

use http::HeaderMap;
use serde_json::json;
use vmcp_test_support::mcp_backend::{Protocol, RecordedRequest};
use vmcp_tests::authority::{Authority, PROVIDERS};
use vmcp_tests::backends::echo_server;
use vmcp_tests::caller::Caller;
use vmcp_tests::counterparts::{Gateway, Reply};
use vmcp_tests::login_steps::{Login, Step, StepOutcome};

use crate::common::until_ready;

const AUDIENCE: &str = "http://localhost/mcp";
const USERS: [&str; 2] = ["ann", "bob"];

/// Number of requests of each kind per client and backend.
const ROUNDS: usize = 4;

/// Methods that only users call.
const ASKED: [&str; 3] = ["tools/call", "prompts/get", "resources/read"];

/// A credential strategy for backends.
struct Strategy {
    name: &'static str,
    /// Value of `outgoingAuth.default`.
    section: fn(&Authority) -> String,
    /// Expected credential in a user's requests to a backend.
    credential: fn(&str) -> Vec<String>,
    /// True if credentials differ between users.
    personal: bool,
    /// True if the gateway issues its clients' tokens.
    own: bool,
}

const STRATEGIES: [Strategy; 6] = [
    Strategy {
        name: "unauthenticated",
        section: |_| "{type: unauthenticated}".to_owned(),
        credential: |_| Vec::new(),
        personal: false,
        own: false,
    },
    Strategy {
        name: "header_injection",
        section: |_| {
            "{type: header_injection, headerInjection: {headerName: X-Api-Key, headerValue: key-of-the-gateway}}"
                .to_owned()
        },
        credential: |_| vec!["x-api-key: key-of-the-gateway".to_owned()],
        personal: false,
        own: false,
    },
    Strategy {
        name: "header_injection of a bearer token",
        section: |_| {
            "{type: header_injection, headerInjection: {headerName: Authorization, headerValue: Bearer token-of-the-gateway}}"
                .to_owned()
        },
        credential: |_| vec!["authorization: Bearer token-of-the-gateway".to_owned()],
        personal: false,
        own: false,
    },
    Strategy {
        name: "token_exchange",
        section: |authority| {
            format!(
                "{{type: token_exchange, tokenExchange: {{tokenUrl: \"{}\"}}}}",
                authority.token_url()
            )
        },
        credential: |user| vec![format!("authorization: Bearer exchanged-for-{user}")],
        personal: true,
        own: false,
    },
    Strategy {
        name: "aws_sts",
        section: |_| {
            "{type: aws_sts, awsSts: {region: eu-west-1, fallbackRoleArn: \"arn:aws:iam::123456789012:role/a\"}}"
                .to_owned()
        },
        credential: |user| {
            let id = user.to_ascii_uppercase();
            vec![
                format!("Credential=ASIA{id}/"),
                format!("x-amz-security-token: sts-session-of-{user}"),
            ]
        },
        personal: true,
        own: false,
    },
    Strategy {
        name: "upstream_inject",
        section: |_| "{type: upstream_inject, upstreamInject: {providerName: git}}".to_owned(),
        credential: |user| vec![format!("authorization: Bearer git-access-of-{user}-")],
        personal: true,
        own: true,
    },
];

/// Lifetime of the providers' tokens in seconds. The gateway refreshes tokens with 45 seconds left, so each use
/// refreshes.
const LIFETIME: u64 = 45;

/// Responses to one user's client.
struct Heard {
    user: &'static str,
    client: &'static str,
    /// Session of the client at the gateway.
    session: Option<String>,
    /// Backend, method and response.
    answers: Vec<(Protocol, &'static str, String)>,
}

/// Returns the texts that identify a user.
fn belongings(user: &str) -> Vec<String> {
    let kinds = ["access", "refresh"];
    let at_providers = PROVIDERS
        .into_iter()
        .flat_map(|provider| kinds.map(|kind| format!("{provider}-{kind}-of-{user}")));
    let mut all: Vec<_> = at_providers.collect();
    all.extend([
        format!("word-of-{user}"),
        format!("exchanged-for-{user}"),
        format!("sts-session-of-{user}"),
        format!("sts-secret-of-{user}"),
        format!("ASIA{}", user.to_ascii_uppercase()),
    ]);
    all
}

fn text(reply: &Reply) -> String {
    let mut text = format!("{}\n", reply.status);
    for (name, value) in &reply.headers {
        writeln!(text, "{name}: {}", String::from_utf8_lossy(value.as_bytes())).unwrap();
    }
    text + &String::from_utf8_lossy(&reply.body)
}

/// Sends every request to every backend repeatedly, with changing tokens.
async fn asks(
    strategy: &Strategy,
    mut caller: Caller,
    user: &'static str,
    client: &'static str,
    tokens: &[String],
) -> Heard {
    let mut answers = Vec::new();
    for number in 0..ROUNDS {
        caller.comes_with(&tokens[number % tokens.len()]);
        for protocol in PROTOCOLS {
            let backend = protocol.name();
            let arguments = json!({ "word": format!("word-of-{user} {client} {number}") });
            let tool = |name| {
                json!({ "name": format!("{backend}_{name}"), "arguments": arguments,
                "_meta": { "progressToken": number } })
            };
            for (what, method, params) in [
                ("tools", "tools/list", json!({})),
                ("prompts", "prompts/list", json!({})),
                ("resources", "resources/list", json!({})),
                ("echo", "tools/call", tool("echo")),
                ("stream", "tools/call", tool("stream")),
                (
                    "prompt",
                    "prompts/get",
                    json!({ "name": format!("{backend}_prompt"), "arguments": arguments }),
                ),
                ("resource", "resources/read", json!({ "uri": format!("mirror://{backend}") })),
            ] {
                let reply = caller.reply(method, params).await.unwrap();
                let cell = format!(
                    "{}: {user}'s {client} client, {backend} backend, {what}",
                    strategy.name
                );
                assert_eq!(reply.status, 200, "{cell}: {}, after {answers:?}", text(&reply));
                answers.push((protocol, what, text(&reply)));
            }
        }
    }
    Heard { user, client, session: caller.session().map(str::to_owned), answers }
}

/// Protocols of the backends.
const PROTOCOLS: [Protocol; 3] = [Protocol::Stateful, Protocol::Stateless, Protocol::LegacySse];

/// Returns the backend session ids in a text.
fn sessions(text: &str, protocol: Protocol) -> BTreeSet<String> {
    let start = format!("{}-session-", protocol.name());
    let found = text.match_indices(&start).map(|(at, _)| {
        let number = text[at + start.len()..].chars().take_while(char::is_ascii_digit);
        format!("{start}{}", number.collect::<String>())
    });
    found.collect()
}

/// Asserts that each response belongs to its user.
fn assert_answers_are_their_owners(
    strategy: &Strategy,
    heard: &[Heard],
    tokens: &[Vec<String>; 2],
) {
    let mut owned: Vec<(&str, String)> = Vec::new();
    for user in USERS {
        owned.extend(belongings(user).into_iter().map(|thing| (user, thing)));
    }
    for (user, tokens) in USERS.into_iter().zip(tokens) {
        owned.extend(tokens.iter().map(|token| (user, signature(token).to_owned())));
    }
    for one in heard {
        owned.extend(one.session.iter().map(|id| (one.user, id.clone())));
        for (protocol, _, text) in &one.answers {
            owned.extend(sessions(text, *protocol).into_iter().map(|id| (one.user, id)));
        }
    }
    for one in heard {
        for (protocol, what, text) in &one.answers {
            let cell = format!(
                "{}: {}'s {} client, {} backend, {what}",
                strategy.name,
                one.user,
                one.client,
                protocol.name()
            );
            for (owner, thing) in owned.iter().filter(|(owner, _)| *owner != one.user) {
                assert!(!holds(text, thing), "{cell}: {owner}'s {thing} in {text}");
            }
            // The user's own data in the response shows that a mix-up would be visible.
            if ["echo", "stream", "prompt"].contains(what) {
                assert!(text.contains(&format!("word-of-{}", one.user)), "{cell}: {text}");
            }
            if !["tools", "prompts", "resources"].contains(what) {
                for credential in (strategy.credential)(one.user) {
                    assert!(text.contains(&credential), "{cell}: no {credential} in {text}");
                }
                let named = sessions(text, *protocol);
                assert_eq!(named.is_empty(), *protocol == Protocol::Stateless, "{cell}: {text}");
            } else if strategy.personal {
                for credential in (strategy.credential)(one.user) {
                    assert!(text.contains(&credential), "{cell}: no {credential} in {text}");
                }
            }
        }
    }
}

/// Returns `true` if the text contains this, except as the prefix of a longer number.
fn holds(text: &str, thing: &str) -> bool {
    text.match_indices(thing).any(|(at, _)| {
        let after = text[at + thing.len()..].chars().next();
        !(thing.ends_with(|c: char| c.is_ascii_digit())
            && after.is_some_and(|c| c.is_ascii_digit()))
    })
}

fn signature(token: &str) -> &str {
    token.rsplit('.').next().unwrap()
}

/// Asserts that backend requests contain no credential of a client and belong to at most one user.
fn assert_requests_are_of_one_user(
    strategy: &Strategy,
    protocol: Protocol,
    shown: &[RecordedRequest],
    heard: &[Heard],
    tokens: &[Vec<String>; 2],
) {
    for request in shown {
        let text = request.text();
        let cell = format!("{}: {} backend: {text}", strategy.name, protocol.name());
        for token in tokens.iter().flatten() {
            assert!(!text.contains(signature(token)), "{cell}: a token of a client's");
        }
        for session in heard.iter().filter_map(|one| one.session.as_ref()) {
            assert!(!text.contains(session), "{cell}: a session of a client's");
        }
        for kept in ["corp-access-of-", "corp-refresh-of-", "git-refresh-of-"] {
            assert!(!text.contains(kept), "{cell}: a token that is for the gateway alone");
        }
        let of: HashSet<_> = USERS
            .into_iter()
            .filter(|user| belongings(user).iter().any(|thing| text.contains(thing)))
            .collect();
        assert!(of.len() < 2, "{cell}: of {of:?}");
        let expected = match strategy.name {
            "unauthenticated" | "header_injection" => None,
            "header_injection of a bearer token" => Some("Bearer token-of-the-gateway"),
            "token_exchange" => Some("Bearer exchanged-for-"),
            "upstream_inject" => Some("Bearer git-access-of-"),
            _ => Some("AWS4-HMAC-SHA256 Credential=ASIA"),
        };
        let found = request.header("authorization");
        // The gateway's own health checks carry no user's credentials.
        let own = strategy.personal && of.is_empty() && found.is_empty();
        assert!(!own || !ASKED.iter().any(|method| request.text().contains(method)), "{cell}");
        assert!(own || found.starts_with(expected.unwrap_or_default()), "{cell}");
        assert!(expected.is_some() || found.is_empty(), "{cell}");
    }
    let calls = shown.iter().filter(|request| request.text().contains("tools/call")).count();
    assert_eq!(calls, heard.len() * ROUNDS * 2, "{}: {} backend", strategy.name, protocol.name());
}

/// Asserts that backends saw more than one token per user.
fn assert_tokens_were_renewed(heard: &[Heard]) {
    for user in USERS {
        let start = format!("git-access-of-{user}-");
        let texts = heard.iter().flat_map(|one| one.answers.iter().map(|(_, _, text)| text));
        let numbers: HashSet<_> = texts
            .flat_map(|text| text.split(&start).skip(1))
            .map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next())
            .collect();
        assert!(numbers.len() > 1, "{user}: {numbers:?}");
    }
}

/// Asserts that a session is not usable by another user.
async fn assert_sessions_cannot_be_taken(
    strategy: &Strategy,
    url: &str,
    heard: &[Heard],
    tokens: &[Vec<String>; 2],
) {
    for one in heard {
        let Some(session) = &one.session else { continue };
        let other = usize::from(one.user == USERS[0]);
        let mut thief = Caller::stateful_as(url, &tokens[other][0]).await.unwrap();
        thief.names_session(session);
        let reply = thief.reply("tools/list", json!({})).await.unwrap();
        let cell = format!("{}: {}'s session", strategy.name, one.user);
        assert_eq!(reply.status, 404, "{cell}: {}", text(&reply));
        assert!(!text(&reply).contains(session), "{cell}: {}", text(&reply));
        let refused = thief.line().post(&HeaderMap::new(), &json!({})).await.unwrap();
        assert_eq!(refused.status, 401, "{cell}: {}", text(&refused));
    }
}

/// Returns three tokens per user.
async fn tokens(strategy: &Strategy, authority: &Authority, gateway: &Gateway) -> [Vec<String>; 2] {
    if !strategy.own {
        return USERS
            .map(|user| (1..=3).map(|number| authority.token(user, AUDIENCE, number)).collect());
    }
    let origin = gateway.url().trim_end_matches("/mcp");
    let [ann, bob] = USERS.map(|user| async move {
        let mut login = Login::new(origin, user);
        login.goes(Step::Token).await.unwrap();
        let mut tokens = vec![login.access.clone()];
        for _ in 0..2 {
            let taken = login.takes(Step::Refresh).await.unwrap();
            assert!(matches!(taken, StepOutcome::Done), "{taken:?}");
            tokens.push(login.access.clone());
        }
        tokens
    });
    tokio::join!(ann, bob).into()
}

async fn nothing_crosses(strategy: &Strategy) {
    let authority = Authority::start().unwrap();
    let mirrors = PROTOCOLS.map(|protocol| (protocol, echo_server(protocol)));
    let mut backends = "backends:\n".to_owned();
    for (protocol, mirror) in &mirrors {
        let (name, transport, url) = (protocol.name(), protocol.transport(), mirror.url());
        writeln!(backends, "- {{name: {name}, url: \"{url}\", transport: {transport}}}").unwrap();
    }
    let section = (strategy.section)(&authority);
    writeln!(backends, "outgoingAuth: {{source: inline, default: {section}}}").unwrap();
    let yaml = |url: &str| {
        let incoming = if strategy.own {
            authority.own_section(url.trim_end_matches("/mcp"), LIFETIME)
        } else {
            authority.section(AUDIENCE)
        };
        format!("name: tests\n{incoming}{backends}")
    };
    let sts = authority.sts_url();
    let gateway = Gateway::start_knowing_among(yaml, &[("AWS_ENDPOINT_URL_STS", &sts)]).await;
    let gateway = gateway.unwrap();
    until_ready(&gateway).await;
    let tokens = tokens(strategy, &authority, &gateway).await;
    let url = gateway.url();
    let stateful = async |user: usize| Caller::stateful_as(url, &tokens[user][0]).await.unwrap();
    let heard: [Heard; 4] = tokio::join!(
        asks(strategy, stateful(0).await, USERS[0], "stateful", &tokens[0]),
        asks(strategy, stateful(1).await, USERS[1], "stateful", &tokens[1]),
        asks(strategy, Caller::stateless_as(url, &tokens[0][0]), USERS[0], "stateless", &tokens[0]),
        asks(strategy, Caller::stateless_as(url, &tokens[1][0]), USERS[1], "stateless", &tokens[1]),
    )
    .into();
    assert_answers_are_their_owners(strategy, &heard, &tokens);
    for (protocol, mirror) in &mirrors {
        assert_requests_are_of_one_user(strategy, *protocol, &mirror.requests(), &heard, &tokens);
    }
    if strategy.own {
        assert_tokens_were_renewed(&heard);
    }
    assert_sessions_cannot_be_taken(strategy, url, &heard, &tokens).await;
    let log = gateway.log();
    for user in USERS {
        for thing in belongings(user) {
            assert!(!log.contains(&thing), "{}: {thing} in the log: {log}", strategy.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn isolates_users_under_every_credential_strategy() {
    futures_util::future::join_all(STRATEGIES.iter().map(nothing_crosses)).await;
}
