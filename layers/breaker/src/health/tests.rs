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
fn names_and_routability_are_those_of_the_status() {
    use Health::{Degraded, Ready, Unauthenticated, Unavailable, Unknown};
    let all = [Ready, Degraded, Unavailable, Unauthenticated, Unknown];
    let names = ["ready", "degraded", "unavailable", "unauthenticated", "unknown"];
    assert!(all.into_iter().map(Health::name).eq(names));
    let routable = all.into_iter().filter(|health| health.is_routable());
    assert!(routable.eq([Ready, Unauthenticated]));
}

#[test]
fn the_circuit_is_reported_beside_it() {
    let breaker = Breaker::new(vmcp_core::Backend::new("b"), crate::Settings::default());
    let monitor = after(3, &[Probe::Good]);
    assert_eq!(monitor.report(None).circuit, None);
    assert_eq!(monitor.report(Some(&breaker)).circuit.unwrap().state.name(), "closed");
}

fn probe() -> impl Strategy<Value = Probe> {
    prop::sample::select(vec![Probe::Good, Probe::Slow, Probe::Failed, Probe::Refused])
}

proptest! {
    #[test]
    fn only_what_was_seen_lately_counts(
        threshold in 1_u32..5,
        probes in prop::collection::vec(probe(), 1..40),
    ) {
        let monitor = after(threshold, &probes);
        let bad = |probe: &&Probe| matches!(probe, Probe::Failed | Probe::Refused);
        let failures = probes.iter().rev().take_while(bad).count();
        prop_assert_eq!(monitor.report(None).consecutive_failures as usize, failures);
        let last = probes.last().unwrap();
        let expected = match last {
            Probe::Good => Some(Health::Ready),
            Probe::Failed if failures >= threshold as usize => Some(Health::Unavailable),
            Probe::Refused if failures >= threshold as usize => Some(Health::Unauthenticated),
            // Too few failures change nothing.
            Probe::Failed | Probe::Refused if failures == 1 => {
                Some(after(threshold, probes.split_last().unwrap().1).health())
            }
            _ => None,
        };
        prop_assert!(expected.is_none_or(|health| health == monitor.health()));
        prop_assert!(monitor.health() != Health::Degraded || probes.contains(&Probe::Slow));
    }
}
