use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn circuit(threshold: u32, seconds: u32) -> Circuit {
    Circuit::new(Settings::new(threshold, SECOND * seconds).unwrap())
}

/// Admits and settles at once.
fn pass(circuit: &mut Circuit, class: Class, now: Duration) {
    let ticket = circuit.admit(now).unwrap();
    circuit.settle(ticket, class, now);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    assert_eq!(Settings::new(0, SECOND), Err(SettingsError::NoThreshold));
    let short = Duration::from_nanos(999_999_999);
    assert_eq!(Settings::new(1, short), Err(SettingsError::ShortTimeout { found: short }));
    assert_eq!(Settings::new(5, SECOND * 60), Ok(Settings::default()));
}

#[test]
fn failures_in_a_row_open_it() {
    let mut circuit = circuit(3, 10);
    for class in [Class::Failure, Class::Failure, Class::Success, Class::Failure, Class::Neutral] {
        pass(&mut circuit, class, SECOND);
    }
    assert_eq!((circuit.state(), circuit.failures()), (State::Closed, 1));
    assert_eq!(circuit.changed(), None);
    pass(&mut circuit, Class::Failure, SECOND);
    pass(&mut circuit, Class::Failure, SECOND * 2);
    assert_eq!((circuit.state(), circuit.failures()), (State::Open, 3));
    assert_eq!(circuit.changed(), Some(SECOND * 2));
    assert_eq!(circuit.admit(SECOND * 5), Err(SECOND * 7));
}

#[test]
fn one_trial_decides() {
    for (class, state) in [(Class::Success, State::Closed), (Class::Failure, State::Open)] {
        let mut circuit = circuit(1, 10);
        pass(&mut circuit, Class::Failure, SECOND);
        let trial = circuit.admit(SECOND * 11).unwrap();
        assert_eq!(circuit.state(), State::HalfOpen);
        assert_eq!(circuit.admit(SECOND * 11), Err(SECOND));
        circuit.settle(trial, class, SECOND * 12);
        assert_eq!((circuit.state(), circuit.changed()), (state, Some(SECOND * 12)));
        // The time runs anew from the trial's failure.
        assert_eq!(circuit.admit(SECOND * 13).is_ok(), state == State::Closed);
    }
}

#[test]
fn a_neutral_trial_gives_its_ticket_back() {
    let mut circuit = circuit(1, 10);
    pass(&mut circuit, Class::Failure, SECOND);
    pass(&mut circuit, Class::Neutral, SECOND * 11);
    assert_eq!(circuit.state(), State::HalfOpen);
    pass(&mut circuit, Class::Success, SECOND * 11);
    assert_eq!((circuit.state(), circuit.failures()), (State::Closed, 0));
}

#[test]
fn results_of_an_earlier_time_count_for_nothing() {
    let mut circuit = circuit(1, 10);
    let late = circuit.admit(SECOND).unwrap();
    pass(&mut circuit, Class::Failure, SECOND);
    circuit.settle(late, Class::Success, SECOND * 2);
    assert_eq!(circuit.state(), State::Open);
    let trial = circuit.admit(SECOND * 11).unwrap();
    circuit.settle(late, Class::Success, SECOND * 11);
    assert_eq!(circuit.state(), State::HalfOpen);
    circuit.settle(trial, Class::Success, SECOND * 11);
    circuit.settle(late, Class::Failure, SECOND * 11);
    circuit.settle(trial, Class::Failure, SECOND * 11);
    assert_eq!((circuit.state(), circuit.failures()), (State::Closed, 0));
}

#[test]
fn a_trial_that_does_not_come_back_is_given_up() {
    let mut circuit = circuit(1, 10);
    pass(&mut circuit, Class::Failure, SECOND);
    let lost = circuit.admit(SECOND * 11).unwrap();
    assert!(circuit.admit(SECOND * 20).is_err());
    let second = circuit.admit(SECOND * 21).unwrap();
    circuit.settle(lost, Class::Failure, SECOND * 21);
    assert_eq!(circuit.state(), State::HalfOpen);
    circuit.settle(second, Class::Success, SECOND * 21);
    assert_eq!(circuit.state(), State::Closed);
}

/// The same rules, told in another way: by the history since the last transition.
struct Model {
    threshold: usize,
    timeout: Duration,
    state: State,
    /// When the state began, and the trial, if there is one.
    since: Duration,
    trial: Option<(usize, Duration)>,
    /// Tickets, by number, whose results count, and the results so far.
    valid: BTreeSet<usize>,
    /// Each with whether it was that of a call.
    results: Vec<(Class, bool)>,
}

impl Model {
    fn turn(&mut self, state: State, now: Duration) {
        (self.state, self.since) = (state, now);
        self.valid.clear();
        self.results.clear();
        self.trial = None;
    }

    fn admit(&mut self, number: usize, now: Duration) -> bool {
        if self.state == State::Open && now >= self.since + self.timeout {
            self.turn(State::HalfOpen, now);
        }
        let free = match (self.state, self.trial) {
            (State::Closed, _) | (State::HalfOpen, None) => true,
            (State::Open, _) => false,
            (State::HalfOpen, Some((_, began))) => now >= began + self.timeout,
        };
        if free {
            if self.state == State::HalfOpen {
                self.valid.clear();
                self.trial = Some((number, now));
            }
            self.valid.insert(number);
        }
        free
    }

    /// Failures since the last success that counts: one of a call, or one with no failed call before it.
    fn in_a_row(&self) -> usize {
        let (mut count, mut calls_fail) = (0, false);
        for (class, is_call) in &self.results {
            match class {
                Class::Failure => (count, calls_fail) = (count + 1, calls_fail || *is_call),
                Class::Success if *is_call || !calls_fail => (count, calls_fail) = (0, false),
                Class::Success | Class::Neutral => {}
            }
        }
        count
    }

    fn settle(&mut self, number: usize, (class, is_call): (Class, bool), now: Duration) {
        if !self.valid.remove(&number) {
            return;
        }
        self.results.push((class, is_call));
        match (self.state, class) {
            (State::HalfOpen, Class::Neutral) => self.trial = None,
            (State::HalfOpen, Class::Success) => self.turn(State::Closed, now),
            (State::HalfOpen, Class::Failure) => self.turn(State::Open, now),
            (State::Closed, _) if self.in_a_row() >= self.threshold => self.turn(State::Open, now),
            _ => {}
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u8),
    Admit,
    Settle(prop::sample::Index, (Class, bool)),
}

fn step() -> impl Strategy<Value = Step> {
    let class = prop_oneof![
        3 => Just(Class::Failure),
        1 => Just(Class::Success),
        1 => Just(Class::Neutral),
    ];
    prop_oneof![
        1 => (0_u8..8).prop_map(Step::Wait),
        3 => Just(Step::Admit),
        3 => (any::<prop::sample::Index>(), (class, any::<bool>()))
            .prop_map(|(at, outcome)| Step::Settle(at, outcome)),
    ]
}

proptest! {
    #[test]
    fn it_does_what_the_model_does(
        threshold in 1_u32..4,
        seconds in 1_u32..9,
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut circuit = circuit(threshold, seconds);
        let mut model = Model {
            threshold: threshold as usize,
            timeout: SECOND * seconds,
            state: State::Closed,
            since: Duration::ZERO,
            trial: None,
            valid: BTreeSet::new(),
            results: Vec::new(),
        };
        let (mut now, mut tickets) = (Duration::ZERO, Vec::new());
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Wait(seconds) => now += SECOND * u32::from(seconds),
                Step::Admit => {
                    let ticket = circuit.admit(now);
                    prop_assert_eq!(ticket.is_ok(), model.admit(number, now));
                    match ticket {
                        Ok(ticket) => tickets.push((number, ticket)),
                        Err(wait) => prop_assert!(!wait.is_zero() && wait <= SECOND * seconds),
                    }
                }
                Step::Settle(_, _) if tickets.is_empty() => {}
                Step::Settle(at, (class, is_call)) => {
                    let (number, ticket) = tickets.swap_remove(at.index(tickets.len()));
                    let ticket = if is_call { ticket } else { ticket.background() };
                    circuit.settle(ticket, class, now);
                    model.settle(number, (class, is_call), now);
                }
            }
            prop_assert_eq!(circuit.state(), model.state);
            prop_assert!(model.state != State::HalfOpen || model.valid.len() <= 1);
        }
    }
}
