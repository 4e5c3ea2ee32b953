//! Compares the refresh token family with a model, over random histories.

use std::collections::VecDeque;
use std::time::Duration;

use super::fixtures::{DAY, digest, grant_id, insert_grant, session, token};
use crate::contract::TestEnv;
use crate::{Limits, PresentedRefreshToken, RotationOutcome, Store};

/// Event of a family.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The token this many generations before the newest one is presented.
    Present(u32),
    /// Time passes.
    Wait(Duration),
    /// The client revokes its token.
    Revoke,
}

/// Outcome of presenting a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Rotated(u32),
    Repeated(u32),
    Replayed,
    Gone,
}

/// Model of a family according to RFC 9700; `None` stands for one that has ended.
#[derive(Debug)]
struct Family {
    current: u32,
    rotated: Option<Duration>,
    idle_end: Duration,
    ends: Duration,
}

impl Family {
    fn present(family: &mut Option<Self>, generation: u32, now: Duration) -> Outcome {
        if family.as_ref().is_some_and(|family| now >= family.idle_end.min(family.ends)) {
            *family = None;
        }
        let Some(there) = family else { return Outcome::Gone };
        if generation == there.current {
            there.current += 1;
            there.rotated = Some(now);
            there.idle_end = there.ends.min(now + DAY * 7);
            return Outcome::Rotated(there.current);
        }
        let repeats = generation + 1 == there.current
            && there.rotated.is_some_and(|at| now <= at + Duration::from_secs(10));
        if repeats {
            return Outcome::Repeated(there.current);
        }
        *family = None;
        Outcome::Replayed
    }
}

/// Deterministic pseudo-random numbers (xorshift).
struct PseudoRandom(u64);

impl PseudoRandom {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn event(&mut self) -> Event {
        match self.below(20) {
            0..=8 => Event::Present(0),
            9..=11 => Event::Present(1),
            12 => Event::Present(2 + u32::try_from(self.below(3)).unwrap()),
            13..=15 => Event::Wait(Duration::from_secs(self.below(12))),
            16..=17 => Event::Wait(Duration::from_secs(self.below(3 * 24 * 3600))),
            18 => Event::Wait(DAY * 6),
            _ if self.below(4) == 0 => Event::Revoke,
            _ => Event::Wait(Duration::from_secs(10)),
        }
    }
}

async fn present(store: &dyn Store, generation: u32) -> Outcome {
    let next = token(generation + 1).digest;
    let number = |grant: &crate::Grant| grant.refresh.as_ref().unwrap().generation;
    match store.rotate(&grant_id(1), &token(generation), &next).await.unwrap() {
        RotationOutcome::Rotated(grant) => Outcome::Rotated(number(&grant)),
        RotationOutcome::Repeated(grant) => Outcome::Repeated(number(&grant)),
        RotationOutcome::Replayed(_) => Outcome::Replayed,
        RotationOutcome::NotFound => Outcome::Gone,
    }
}

pub async fn refresh_family_matches_its_model(fresh: impl AsyncFn(Limits) -> TestEnv) {
    let mut seen = Vec::new();
    for history in 1..=60 {
        let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
        insert_grant(&*store, 1, &clock).await;
        let mut numbers = PseudoRandom(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(history));
        let mut model =
            Some(Family { current: 0, rotated: None, idle_end: DAY * 7, ends: DAY * 30 });
        let (mut now, mut newest) = (Duration::ZERO, 0_u32);
        let mut events = VecDeque::new();
        for _ in 0..25 {
            let event = numbers.event();
            events.push_back(event);
            match event {
                Event::Wait(time) => {
                    clock.advance(time);
                    now += time;
                }
                Event::Revoke => {
                    store.revoke(&grant_id(1)).await.unwrap();
                    model = None;
                }
                Event::Present(before) => {
                    let generation = newest.saturating_sub(before);
                    let expected = Family::present(&mut model, generation, now);
                    let outcome = present(&*store, generation).await;
                    assert_eq!(outcome, expected, "history {history}: {events:?}");
                    if let Outcome::Rotated(current) = outcome {
                        newest = current;
                    }
                    seen.push(outcome);
                }
            }
            // Invariant: a grant always has a session.
            let granted = store.grant(&grant_id(1), &super::fixtures::client_id("client")).await;
            let there = granted.unwrap().grant.is_some();
            let open = store.session(&session(1)).await.unwrap().is_some();
            assert!(open || !there, "history {history}: {events:?}");
        }
    }
    // The histories cover each outcome.
    assert!(seen.iter().any(|outcome| matches!(outcome, Outcome::Repeated(_))));
    assert!(seen.contains(&Outcome::Replayed) && seen.contains(&Outcome::Gone));
    assert!(seen.iter().any(|outcome| matches!(outcome, Outcome::Rotated(many) if *many > 8)));
    let foreign = PresentedRefreshToken { digest: digest("foreign"), generation: 0 };
    let TestEnv { store, clock, .. } = fresh(Limits::default()).await;
    insert_grant(&*store, 1, &clock).await;
    let rotation = store.rotate(&grant_id(1), &foreign, &digest("token 1")).await.unwrap();
    assert!(matches!(rotation, RotationOutcome::Replayed(_)));
}
