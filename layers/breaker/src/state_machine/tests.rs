use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn circuit(threshold: u32, seconds: u32) -> StateMachine {
    StateMachine::new(CircuitSettings::new(threshold, SECOND * seconds).unwrap())
}

/// Acquires a token and records its outcome.
fn pass(circuit: &mut StateMachine, outcome: Outcome, now: Duration) {
    let token = circuit.try_acquire(now).unwrap();
    circuit.record(token, outcome, now);
}

#[test]
fn rejects_invalid_settings() {
    assert_eq!(CircuitSettings::new(0, SECOND), Err(CircuitSettingsError::ZeroThreshold));
    let short = Duration::from_nanos(999_999_999);
    assert_eq!(
        CircuitSettings::new(1, short),
        Err(CircuitSettingsError::ShortTimeout { found: short })
    );
    assert_eq!(CircuitSettings::new(5, SECOND * 60), Ok(CircuitSettings::default()));
}

#[test]
fn consecutive_failures_open_circuit() {
    let mut circuit = circuit(3, 10);
    for outcome in
        [Outcome::Failure, Outcome::Failure, Outcome::Success, Outcome::Failure, Outcome::Neutral]
    {
        pass(&mut circuit, outcome, SECOND);
    }
    assert_eq!((circuit.state(), circuit.failures()), (CircuitState::Closed, 1));
    assert_eq!(circuit.last_changed(), None);
    pass(&mut circuit, Outcome::Failure, SECOND);
    pass(&mut circuit, Outcome::Failure, SECOND * 2);
    assert_eq!((circuit.state(), circuit.failures()), (CircuitState::Open, 3));
    assert_eq!(circuit.last_changed(), Some(SECOND * 2));
    assert_eq!(circuit.try_acquire(SECOND * 5), Err(SECOND * 7));
}

#[test]
fn trial_closes_or_reopens_circuit() {
    for (outcome, state) in
        [(Outcome::Success, CircuitState::Closed), (Outcome::Failure, CircuitState::Open)]
    {
        let mut circuit = circuit(1, 10);
        pass(&mut circuit, Outcome::Failure, SECOND);
        let trial = circuit.try_acquire(SECOND * 11).unwrap();
        assert_eq!(circuit.state(), CircuitState::HalfOpen);
        assert_eq!(circuit.try_acquire(SECOND * 11), Err(SECOND));
        circuit.record(trial, outcome, SECOND * 12);
        assert_eq!((circuit.state(), circuit.last_changed()), (state, Some(SECOND * 12)));
        // The timeout restarts at the trial's failure.
        assert_eq!(circuit.try_acquire(SECOND * 13).is_ok(), state == CircuitState::Closed);
    }
}

#[test]
fn neutral_trial_admits_another() {
    let mut circuit = circuit(1, 10);
    pass(&mut circuit, Outcome::Failure, SECOND);
    pass(&mut circuit, Outcome::Neutral, SECOND * 11);
    assert_eq!(circuit.state(), CircuitState::HalfOpen);
    pass(&mut circuit, Outcome::Success, SECOND * 11);
    assert_eq!((circuit.state(), circuit.failures()), (CircuitState::Closed, 0));
}

#[test]
fn ignores_results_of_earlier_epochs() {
    let mut circuit = circuit(1, 10);
    let late = circuit.try_acquire(SECOND).unwrap();
    pass(&mut circuit, Outcome::Failure, SECOND);
    circuit.record(late, Outcome::Success, SECOND * 2);
    assert_eq!(circuit.state(), CircuitState::Open);
    let trial = circuit.try_acquire(SECOND * 11).unwrap();
    circuit.record(late, Outcome::Success, SECOND * 11);
    assert_eq!(circuit.state(), CircuitState::HalfOpen);
    circuit.record(trial, Outcome::Success, SECOND * 11);
    circuit.record(late, Outcome::Failure, SECOND * 11);
    circuit.record(trial, Outcome::Failure, SECOND * 11);
    assert_eq!((circuit.state(), circuit.failures()), (CircuitState::Closed, 0));
}

#[test]
fn lost_trial_is_replaced_after_timeout() {
    let mut circuit = circuit(1, 10);
    pass(&mut circuit, Outcome::Failure, SECOND);
    let lost = circuit.try_acquire(SECOND * 11).unwrap();
    assert!(circuit.try_acquire(SECOND * 20).is_err());
    let second = circuit.try_acquire(SECOND * 21).unwrap();
    circuit.record(lost, Outcome::Failure, SECOND * 21);
    assert_eq!(circuit.state(), CircuitState::HalfOpen);
    circuit.record(second, Outcome::Success, SECOND * 21);
    assert_eq!(circuit.state(), CircuitState::Closed);
}

/// Reference model: the same rules, computed from the history since the last transition.
struct Model {
    threshold: usize,
    timeout: Duration,
    state: CircuitState,
    /// Start of the state, and the pending trial.
    since: Duration,
    trial: Option<(usize, Duration)>,
    /// Tokens of the current epoch.
    valid: BTreeSet<usize>,
    /// Results since the last transition, each with whether it was a call's.
    results: Vec<(Outcome, bool)>,
}

impl Model {
    fn transition(&mut self, state: CircuitState, now: Duration) {
        (self.state, self.since) = (state, now);
        self.valid.clear();
        self.results.clear();
        self.trial = None;
    }

    fn try_acquire(&mut self, id: usize, now: Duration) -> bool {
        if self.state == CircuitState::Open && now >= self.since + self.timeout {
            self.transition(CircuitState::HalfOpen, now);
        }
        let free = match (self.state, self.trial) {
            (CircuitState::Closed, _) | (CircuitState::HalfOpen, None) => true,
            (CircuitState::Open, _) => false,
            (CircuitState::HalfOpen, Some((_, began))) => now >= began + self.timeout,
        };
        if free {
            if self.state == CircuitState::HalfOpen {
                self.valid.clear();
                self.trial = Some((id, now));
            }
            self.valid.insert(id);
        }
        free
    }

    /// Counts the failures since the last success that resets them: a call's, or any if no call has failed.
    fn consecutive_failures(&self) -> usize {
        let (mut count, mut has_failed_call) = (0, false);
        for (outcome, is_call) in &self.results {
            match outcome {
                Outcome::Failure => {
                    (count, has_failed_call) = (count + 1, has_failed_call || *is_call);
                }
                Outcome::Success if *is_call || !has_failed_call => {
                    (count, has_failed_call) = (0, false);
                }
                Outcome::Success | Outcome::Neutral => {}
            }
        }
        count
    }

    fn record(&mut self, id: usize, (outcome, is_call): (Outcome, bool), now: Duration) {
        if !self.valid.remove(&id) {
            return;
        }
        self.results.push((outcome, is_call));
        match (self.state, outcome) {
            (CircuitState::HalfOpen, Outcome::Neutral) => self.trial = None,
            (CircuitState::HalfOpen, Outcome::Success) => {
                self.transition(CircuitState::Closed, now);
            }
            (CircuitState::HalfOpen, Outcome::Failure) => self.transition(CircuitState::Open, now),
            (CircuitState::Closed, _) if self.consecutive_failures() >= self.threshold => {
                self.transition(CircuitState::Open, now);
            }
            _ => {}
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u8),
    Admit,
    Record(prop::sample::Index, (Outcome, bool)),
}

fn step() -> impl Strategy<Value = Step> {
    let outcome = prop_oneof![
        3 => Just(Outcome::Failure),
        1 => Just(Outcome::Success),
        1 => Just(Outcome::Neutral),
    ];
    prop_oneof![
        1 => (0_u8..8).prop_map(Step::Wait),
        3 => Just(Step::Admit),
        3 => (any::<prop::sample::Index>(), (outcome, any::<bool>()))
            .prop_map(|(at, outcome)| Step::Record(at, outcome)),
    ]
}

proptest! {
    #[test]
    fn agrees_with_reference_model(
        threshold in 1_u32..4,
        seconds in 1_u32..9,
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut circuit = circuit(threshold, seconds);
        let mut model = Model {
            threshold: threshold as usize,
            timeout: SECOND * seconds,
            state: CircuitState::Closed,
            since: Duration::ZERO,
            trial: None,
            valid: BTreeSet::new(),
            results: Vec::new(),
        };
        let (mut now, mut tokens) = (Duration::ZERO, Vec::new());
        for (id, step) in steps.into_iter().enumerate() {
            match step {
                Step::Wait(seconds) => now += SECOND * u32::from(seconds),
                Step::Admit => {
                    let token = circuit.try_acquire(now);
                    prop_assert_eq!(token.is_ok(), model.try_acquire(id, now));
                    match token {
                        Ok(token) => tokens.push((id, token)),
                        Err(wait) => prop_assert!(!wait.is_zero() && wait <= SECOND * seconds),
                    }
                }
                Step::Record(_, _) if tokens.is_empty() => {}
                Step::Record(at, (outcome, is_call)) => {
                    let (id, token) = tokens.swap_remove(at.index(tokens.len()));
                    let token = if is_call { token } else { token.background() };
                    circuit.record(token, outcome, now);
                    model.record(id, (outcome, is_call), now);
                }
            }
            prop_assert_eq!(circuit.state(), model.state);
            prop_assert!(model.state != CircuitState::HalfOpen || model.valid.len() <= 1);
        }
    }
}
