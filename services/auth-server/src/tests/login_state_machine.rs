//! State-machine test of a login: for every order of browser actions, a code requires consent and a response of each
//! provider, and is issued once.

use proptest::prelude::*;

use crate::testing::{TestEnv, UserAgent, param};

/// Action of a browser.
#[derive(Clone, Copy, Debug)]
enum Action {
    Allow,
    Deny,
    /// Returns from the provider that the login waits for.
    Return,
    /// Repeats an earlier return from a provider.
    ReturnAgain,
    /// Returns with an error.
    Fail,
    /// Another browser performs the action.
    Stranger,
    Wait,
}

/// State of a login.
#[derive(Debug)]
enum State {
    AwaitConsent(String),
    AwaitUpstream(String),
    Ended,
}

fn actions() -> impl Strategy<Value = Vec<(usize, Action)>> {
    let act = prop_oneof![
        5 => Just(Action::Allow),
        1 => Just(Action::Deny),
        8 => Just(Action::Return),
        2 => Just(Action::ReturnAgain),
        1 => Just(Action::Fail),
        1 => Just(Action::Stranger),
        1 => Just(Action::Wait),
    ];
    proptest::collection::vec((0_usize..2, act), 1..16)
}

/// Login with its actions and results.
struct Login {
    state: State,
    upstreams: usize,
    before: Option<String>,
    codes: Vec<String>,
}

impl Login {
    async fn begin(env: &TestEnv, browser: &mut UserAgent, client: &str) -> Self {
        let page = browser.get(env, &TestEnv::authorize(client, &[("prompt", "consent")])).await;
        Self {
            state: State::AwaitConsent(page.text),
            upstreams: 0,
            before: None,
            codes: Vec::new(),
        }
    }

    async fn apply(&mut self, env: &TestEnv, browser: &mut UserAgent, act: Action) {
        let state = std::mem::replace(&mut self.state, State::Ended);
        self.state = match (state, act) {
            (State::AwaitConsent(page), Action::Allow) => {
                let left = browser.send(env, TestEnv::decision(&page, "allow")).await;
                let again = browser.send(env, TestEnv::decision(&page, "allow")).await;
                assert_eq!(again.status, 400, "a consent counts once");
                State::AwaitUpstream(left.refresh_target())
            }
            (State::AwaitConsent(page), Action::Deny) => {
                let left = browser.send(env, TestEnv::decision(&page, "deny")).await;
                assert_eq!(left.error(), "access_denied");
                State::Ended
            }
            (State::AwaitConsent(page), Action::Stranger) => {
                let response =
                    UserAgent::default().send(env, TestEnv::decision(&page, "allow")).await;
                assert_eq!(response.status, 403);
                State::AwaitConsent(page)
            }
            (State::AwaitUpstream(to), Action::Return) => {
                let back = TestEnv::provider_callback(&to);
                let next = browser.get(env, &back).await.location();
                self.before = Some(back);
                self.upstreams += 1;
                match param(&url::Url::parse(&next).unwrap(), "code") {
                    Some(code) => {
                        self.codes.push(code);
                        State::Ended
                    }
                    None => State::AwaitUpstream(next),
                }
            }
            (State::AwaitUpstream(to), Action::Fail) => {
                let back = TestEnv::provider_callback(&to).replace("code=", "error=denied&x=");
                assert_eq!(browser.get(env, &back).await.error(), "access_denied");
                State::Ended
            }
            (State::AwaitUpstream(to), Action::Stranger) => {
                let response =
                    UserAgent::default().get(env, &TestEnv::provider_callback(&to)).await;
                assert_eq!(response.status, 403);
                assert_eq!(browser.get(env, &TestEnv::provider_callback(&to)).await.status, 400);
                State::Ended
            }
            (state, Action::ReturnAgain) => {
                if let Some(back) = &self.before {
                    assert_eq!(browser.get(env, back).await.status, 400, "a state counts once");
                }
                state
            }
            (state, _) => state,
        };
    }

    async fn expire(&mut self, env: &TestEnv, browser: &mut UserAgent) {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::AwaitConsent(page) => {
                let response = browser.send(env, TestEnv::decision(&page, "allow")).await;
                assert_eq!(response.status, 400);
            }
            State::AwaitUpstream(to) => {
                assert_eq!(browser.get(env, &TestEnv::provider_callback(&to)).await.status, 400);
            }
            State::Ended => {}
        }
    }
}

async fn run(acts: Vec<(usize, Action)>) {
    let env = TestEnv::new();
    let client = env.client().await;
    let mut browser = UserAgent::default();
    let mut logins = [
        Login::begin(&env, &mut browser, &client).await,
        Login::begin(&env, &mut browser, &client).await,
    ];
    for (which, act) in acts {
        if matches!(act, Action::Wait) {
            env.clock.advance(std::time::Duration::from_secs(601));
            for login in &mut logins {
                login.expire(&env, &mut browser).await;
            }
        } else {
            logins[which].apply(&env, &mut browser, act).await;
        }
    }
    let given: usize = logins.iter().map(|login| login.codes.len()).sum();
    for login in &logins {
        assert_eq!(login.codes.len(), usize::from(login.upstreams == 2), "{:?}", login.state);
    }
    // Codes expire too.
    assert!(env.store.counts().await.unwrap().codes <= given);
    // An unfinished login leaves no records.
    env.clock.advance(std::time::Duration::from_secs(601));
    assert_eq!(env.store.counts().await.unwrap().logins, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn code_requires_consent_and_each_provider_once(acts in actions()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(run(acts));
    }
}
