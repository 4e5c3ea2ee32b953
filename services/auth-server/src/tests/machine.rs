//! State-machine test of a login: for every order of browser actions, a code requires consent and a response of each
//! provider, and is issued once.

use proptest::prelude::*;

use crate::testing::{Browser, World, param};

/// Action of a browser.
#[derive(Clone, Copy, Debug)]
enum Act {
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

fn acts() -> impl Strategy<Value = Vec<(usize, Act)>> {
    let act = prop_oneof![
        5 => Just(Act::Allow),
        1 => Just(Act::Deny),
        8 => Just(Act::Return),
        2 => Just(Act::ReturnAgain),
        1 => Just(Act::Fail),
        1 => Just(Act::Stranger),
        1 => Just(Act::Wait),
    ];
    proptest::collection::vec((0_usize..2, act), 1..16)
}

/// Login with its actions and results.
struct Login {
    state: State,
    legs: usize,
    before: Option<String>,
    codes: Vec<String>,
}

impl Login {
    async fn begin(world: &World, browser: &mut Browser, client: &str) -> Self {
        let page = browser.get(world, &World::authorize(client, &[("prompt", "consent")])).await;
        Self { state: State::AwaitConsent(page.text), legs: 0, before: None, codes: Vec::new() }
    }

    async fn act(&mut self, world: &World, browser: &mut Browser, act: Act) {
        let state = std::mem::replace(&mut self.state, State::Ended);
        self.state = match (state, act) {
            (State::AwaitConsent(page), Act::Allow) => {
                let left = browser.send(world, World::decision(&page, "allow")).await;
                let again = browser.send(world, World::decision(&page, "allow")).await;
                assert_eq!(again.status, 400, "a consent counts once");
                State::AwaitUpstream(left.refresh_target())
            }
            (State::AwaitConsent(page), Act::Deny) => {
                let left = browser.send(world, World::decision(&page, "deny")).await;
                assert_eq!(left.error(), "access_denied");
                State::Ended
            }
            (State::AwaitConsent(page), Act::Stranger) => {
                let came = Browser::default().send(world, World::decision(&page, "allow")).await;
                assert_eq!(came.status, 403);
                State::AwaitConsent(page)
            }
            (State::AwaitUpstream(to), Act::Return) => {
                let back = World::at_provider(&to);
                let next = browser.get(world, &back).await.location();
                self.before = Some(back);
                self.legs += 1;
                match param(&url::Url::parse(&next).unwrap(), "code") {
                    Some(code) => {
                        self.codes.push(code);
                        State::Ended
                    }
                    None => State::AwaitUpstream(next),
                }
            }
            (State::AwaitUpstream(to), Act::Fail) => {
                let back = World::at_provider(&to).replace("code=", "error=denied&x=");
                assert_eq!(browser.get(world, &back).await.error(), "access_denied");
                State::Ended
            }
            (State::AwaitUpstream(to), Act::Stranger) => {
                let came = Browser::default().get(world, &World::at_provider(&to)).await;
                assert_eq!(came.status, 403);
                assert_eq!(browser.get(world, &World::at_provider(&to)).await.status, 400);
                State::Ended
            }
            (state, Act::ReturnAgain) => {
                if let Some(back) = &self.before {
                    assert_eq!(browser.get(world, back).await.status, 400, "a state counts once");
                }
                state
            }
            (state, _) => state,
        };
    }

    async fn expire(&mut self, world: &World, browser: &mut Browser) {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::AwaitConsent(page) => {
                let came = browser.send(world, World::decision(&page, "allow")).await;
                assert_eq!(came.status, 400);
            }
            State::AwaitUpstream(to) => {
                assert_eq!(browser.get(world, &World::at_provider(&to)).await.status, 400);
            }
            State::Ended => {}
        }
    }
}

async fn run(acts: Vec<(usize, Act)>) {
    let world = World::new();
    let client = world.client().await;
    let mut browser = Browser::default();
    let mut logins = [
        Login::begin(&world, &mut browser, &client).await,
        Login::begin(&world, &mut browser, &client).await,
    ];
    for (which, act) in acts {
        if matches!(act, Act::Wait) {
            world.clock.advance(std::time::Duration::from_secs(601));
            for login in &mut logins {
                login.expire(&world, &mut browser).await;
            }
        } else {
            logins[which].act(&world, &mut browser, act).await;
        }
    }
    let given: usize = logins.iter().map(|login| login.codes.len()).sum();
    for login in &logins {
        assert_eq!(login.codes.len(), usize::from(login.legs == 2), "{:?}", login.state);
    }
    // Codes expire too.
    assert!(world.store.counts().await.unwrap().codes <= given);
    // An unfinished login leaves no records.
    world.clock.advance(std::time::Duration::from_secs(601));
    assert_eq!(world.store.counts().await.unwrap().logins, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_code_comes_of_consent_and_every_leg_once(acts in acts()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(run(acts));
    }
}
