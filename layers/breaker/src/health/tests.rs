use proptest::prelude::*;

use super::*;

fn monitor_after(threshold: u32, probes: &[ProbeResult]) -> HealthMonitor {
    let mut monitor = HealthMonitor::new(NonZeroU32::new(threshold).unwrap());
    for probe in probes {
        monitor.observe(*probe);
    }
    monitor
}

#[test]
fn first_success_sets_health() {
    assert_eq!(monitor_after(3, &[]).health(), Health::Unknown);
    assert_eq!(monitor_after(3, &[ProbeResult::Healthy]).health(), Health::Ready);
    assert_eq!(monitor_after(3, &[ProbeResult::Slow]).health(), Health::Degraded);
}

#[test]
fn first_failure_below_threshold_keeps_health_unknown() {
    let first = monitor_after(3, &[ProbeResult::Failed]);
    assert_eq!((first.health(), first.report(None).consecutive_failures), (Health::Unknown, 1));
    assert_eq!(monitor_after(1, &[ProbeResult::Failed]).health(), Health::Unavailable);
    assert_eq!(monitor_after(1, &[ProbeResult::Unauthorized]).health(), Health::Unauthenticated);
}

#[test]
fn last_of_consecutive_failures_sets_health() {
    use ProbeResult::{Failed, Healthy, Unauthorized};
    assert_eq!(monitor_after(3, &[Healthy, Failed, Failed]).health(), Health::Ready);
    assert_eq!(
        monitor_after(3, &[Healthy, Failed, Failed, Healthy, Failed]).health(),
        Health::Ready
    );
    assert_eq!(
        monitor_after(3, &[Healthy, Unauthorized, Unauthorized, Failed]).health(),
        Health::Unavailable
    );
    assert_eq!(
        monitor_after(3, &[Failed, Failed, Failed, Unauthorized]).health(),
        Health::Unauthenticated
    );
}

#[test]
fn first_success_after_failures_restores_ready() {
    let mut monitor =
        monitor_after(2, &[ProbeResult::Healthy, ProbeResult::Failed, ProbeResult::Failed]);
    assert_eq!(monitor.health(), Health::Unavailable);
    assert!(monitor.observe(ProbeResult::Healthy));
    assert_eq!((monitor.health(), monitor.failures), (Health::Ready, 0));
    assert!(!monitor.observe(ProbeResult::Healthy));
}

#[test]
fn slow_probes_below_threshold_keep_ready() {
    use ProbeResult::{Healthy, Slow};
    assert_eq!(
        monitor_after(3, &[Healthy, Slow, Slow, Healthy, Slow, Slow]).health(),
        Health::Ready
    );
    assert_eq!(monitor_after(3, &[Healthy, Slow, Slow, Slow]).health(), Health::Degraded);
    assert_eq!(monitor_after(3, &[Healthy, Slow, Slow, Slow, Healthy]).health(), Health::Ready);
}

#[test]
fn health_names_match_resource_status() {
    use Health::{Degraded, Ready, Unauthenticated, Unavailable, Unknown};
    let all = [Ready, Degraded, Unavailable, Unauthenticated, Unknown];
    let names = ["ready", "degraded", "unavailable", "unauthenticated", "unknown"];
    assert!(all.into_iter().map(Health::name).eq(names));
}

#[test]
fn report_includes_circuit_status() {
    let breaker =
        CircuitHandle::new(vmcp_core::Backend::new("b"), crate::CircuitSettings::default());
    let monitor = monitor_after(3, &[ProbeResult::Healthy]);
    assert_eq!(monitor.report(None).circuit, None);
    assert_eq!(monitor.report(Some(&breaker)).circuit.unwrap().state.name(), "closed");
}

#[test]
fn required_user_credentials_reset_failures() {
    use ProbeResult::{Failed, Healthy, RequiresUserCredentials};
    let monitor = monitor_after(3, &[Failed, Failed, RequiresUserCredentials, Failed, Failed]);
    assert_eq!((monitor.health(), monitor.failures), (Health::Unauthenticated, 2));
    assert_eq!(monitor_after(3, &[RequiresUserCredentials, Healthy]).health(), Health::Ready);
}

#[test]
fn new_threshold_applies_to_next_probe() {
    let mut monitor =
        monitor_after(5, &[ProbeResult::Healthy, ProbeResult::Failed, ProbeResult::Failed]);
    monitor.set_threshold(NonZeroU32::new(2).unwrap());
    assert_eq!(monitor.health(), Health::Ready);
    assert!(monitor.observe(ProbeResult::Failed));
    assert_eq!((monitor.health(), monitor.failures), (Health::Unavailable, 3));
}

fn probe() -> impl Strategy<Value = ProbeResult> {
    use ProbeResult::{Failed, Healthy, RequiresUserCredentials, Slow, Unauthorized};
    prop::sample::select(vec![Healthy, Slow, Failed, Unauthorized, RequiresUserCredentials])
}

/// Counts the latest consecutive probes of a kind.
fn run(probes: &[ProbeResult], kind: impl Fn(ProbeResult) -> bool) -> usize {
    probes.iter().rev().take_while(|probe| kind(**probe)).count()
}

fn is_failure(probe: ProbeResult) -> bool {
    matches!(probe, ProbeResult::Failed | ProbeResult::Unauthorized)
}

/// Reference model: computes the health from the latest run of equal results, without counters.
fn model(threshold: usize, probes: &[ProbeResult]) -> Health {
    let Some((last, before)) = probes.split_last() else { return Health::Unknown };
    let previous = model(threshold, before);
    match last {
        ProbeResult::Healthy => Health::Ready,
        ProbeResult::RequiresUserCredentials => Health::Unauthenticated,
        ProbeResult::Slow => {
            let slow = run(probes, |probe| probe == ProbeResult::Slow);
            if previous == Health::Ready && slow < threshold { previous } else { Health::Degraded }
        }
        ProbeResult::Failed if run(probes, is_failure) >= threshold => Health::Unavailable,
        ProbeResult::Unauthorized if run(probes, is_failure) >= threshold => {
            Health::Unauthenticated
        }
        ProbeResult::Failed | ProbeResult::Unauthorized => previous,
    }
}

proptest! {
    #[test]
    fn agrees_with_reference_model(
        threshold in 1_u32..5,
        probes in prop::collection::vec(probe(), 0..40),
    ) {
        let mut monitor = monitor_after(threshold, &[]);
        for (number, probe) in probes.iter().enumerate() {
            let before = monitor.health();
            let changed = monitor.observe(*probe);
            let so_far = &probes[..=number];
            prop_assert_eq!(monitor.health(), model(threshold as usize, so_far));
            prop_assert_eq!(changed, before != monitor.health());
            prop_assert_eq!(monitor.report(None).consecutive_failures as usize, run(so_far, is_failure));
        }
    }
}
