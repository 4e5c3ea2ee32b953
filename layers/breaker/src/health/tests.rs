use proptest::prelude::*;

use super::*;

fn after(threshold: u32, probes: &[Probe]) -> Monitor {
    let mut monitor = Monitor::new(NonZeroU32::new(threshold).unwrap());
    for probe in probes {
        monitor.observe(*probe);
    }
    monitor
}

#[test]
fn the_first_success_tells_at_once() {
    assert_eq!(after(3, &[]).health(), Health::Unknown);
    assert_eq!(after(3, &[Probe::Good]).health(), Health::Ready);
    assert_eq!(after(3, &[Probe::Slow]).health(), Health::Degraded);
}

#[test]
fn the_first_failure_leaves_it_unknown_unless_one_is_enough() {
    let first = after(3, &[Probe::Failed]);
    assert_eq!((first.health(), first.report(None).consecutive_failures), (Health::Unknown, 1));
    assert_eq!(after(1, &[Probe::Failed]).health(), Health::Unavailable);
    assert_eq!(after(1, &[Probe::Refused]).health(), Health::Unauthenticated);
}

#[test]
fn failures_in_a_row_are_needed_and_the_last_one_says_which() {
    use Probe::{Failed, Good, Refused};
    assert_eq!(after(3, &[Good, Failed, Failed]).health(), Health::Ready);
    assert_eq!(after(3, &[Good, Failed, Failed, Good, Failed]).health(), Health::Ready);
    assert_eq!(after(3, &[Good, Refused, Refused, Failed]).health(), Health::Unavailable);
    assert_eq!(after(3, &[Failed, Failed, Failed, Refused]).health(), Health::Unauthenticated);
}

#[test]
fn a_backend_that_recovers_is_ready_at_once() {
    let mut monitor = after(2, &[Probe::Good, Probe::Failed, Probe::Failed]);
    assert_eq!(monitor.health(), Health::Unavailable);
    assert!(monitor.observe(Probe::Good));
    assert_eq!((monitor.health(), monitor.failures), (Health::Ready, 0));
    assert!(!monitor.observe(Probe::Good));
}

#[test]
fn one_slow_probe_does_not_degrade_what_was_ready() {
    use Probe::{Good, Slow};
    assert_eq!(after(3, &[Good, Slow, Slow, Good, Slow, Slow]).health(), Health::Ready);
    assert_eq!(after(3, &[Good, Slow, Slow, Slow]).health(), Health::Degraded);
    assert_eq!(after(3, &[Good, Slow, Slow, Slow, Good]).health(), Health::Ready);
}

#[test]
fn names_are_those_of_the_status() {
    use Health::{Degraded, Ready, Unauthenticated, Unavailable, Unknown};
    let all = [Ready, Degraded, Unavailable, Unauthenticated, Unknown];
    let names = ["ready", "degraded", "unavailable", "unauthenticated", "unknown"];
    assert!(all.into_iter().map(Health::name).eq(names));
}

#[test]
fn the_circuit_is_reported_beside_it() {
    let breaker = Breaker::new(vmcp_core::Backend::new("b"), crate::Settings::default());
    let monitor = after(3, &[Probe::Good]);
    assert_eq!(monitor.report(None).circuit, None);
    assert_eq!(monitor.report(Some(&breaker)).circuit.unwrap().state.name(), "closed");
}

#[test]
fn a_backend_that_asks_for_its_callers_is_known_at_once_and_has_not_failed() {
    use Probe::{AsksForCaller, Failed, Good};
    let asking = after(3, &[Failed, Failed, AsksForCaller, Failed, Failed]);
    assert_eq!((asking.health(), asking.failures), (Health::Unauthenticated, 2));
    assert_eq!(after(3, &[AsksForCaller, Good]).health(), Health::Ready);
}

#[test]
fn another_threshold_holds_from_the_next_probe_on() {
    let mut monitor = after(5, &[Probe::Good, Probe::Failed, Probe::Failed]);
    monitor.set_threshold(NonZeroU32::new(2).unwrap());
    assert_eq!(monitor.health(), Health::Ready);
    assert!(monitor.observe(Probe::Failed));
    assert_eq!((monitor.health(), monitor.failures), (Health::Unavailable, 3));
}

fn probe() -> impl Strategy<Value = Probe> {
    use Probe::{AsksForCaller, Failed, Good, Refused, Slow};
    prop::sample::select(vec![Good, Slow, Failed, Refused, AsksForCaller])
}

/// How many of the last probes are of such a kind.
fn run(probes: &[Probe], kind: impl Fn(Probe) -> bool) -> usize {
    probes.iter().rev().take_while(|probe| kind(**probe)).count()
}

fn bad(probe: Probe) -> bool {
    matches!(probe, Probe::Failed | Probe::Refused)
}

/// What a backend's health is after `probes`, said without counters: by the run that the last one ends.
fn model(threshold: usize, probes: &[Probe]) -> Health {
    let Some((last, before)) = probes.split_last() else { return Health::Unknown };
    let was = model(threshold, before);
    match last {
        Probe::Good => Health::Ready,
        Probe::AsksForCaller => Health::Unauthenticated,
        Probe::Slow => {
            let slow = run(probes, |probe| probe == Probe::Slow);
            if was == Health::Ready && slow < threshold { was } else { Health::Degraded }
        }
        Probe::Failed if run(probes, bad) >= threshold => Health::Unavailable,
        Probe::Refused if run(probes, bad) >= threshold => Health::Unauthenticated,
        Probe::Failed | Probe::Refused => was,
    }
}

proptest! {
    #[test]
    fn it_is_what_the_last_run_of_probes_says(
        threshold in 1_u32..5,
        probes in prop::collection::vec(probe(), 0..40),
    ) {
        let mut monitor = after(threshold, &[]);
        for (number, probe) in probes.iter().enumerate() {
            let before = monitor.health();
            let changed = monitor.observe(*probe);
            let seen = &probes[..=number];
            prop_assert_eq!(monitor.health(), model(threshold as usize, seen));
            prop_assert_eq!(changed, before != monitor.health());
            prop_assert_eq!(monitor.report(None).consecutive_failures as usize, run(seen, bad));
        }
    }
}
