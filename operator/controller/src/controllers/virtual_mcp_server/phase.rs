//! Phase of a server, which the operator alone writes.

use vmcp_api::conversion::{ConditionUpdate, LeftOut};
use vmcp_api::virtual_mcp_server::{BackendStatus, DiscoveredBackend, Phase, ServerReady};

use crate::stores::Rollout;

/// Phase with its message, and the condition `Ready`.
#[derive(Debug, PartialEq)]
pub(super) struct Readiness {
    pub(super) phase: Phase,
    pub(super) ready: ConditionUpdate,
}

/// Returns the phase of a server whose configuration is in force.
pub(super) fn readiness(
    rollout: Option<&Rollout>,
    backends: &[DiscoveredBackend],
    left_out: &[LeftOut],
) -> Readiness {
    let Some(rollout) = rollout else {
        return pending(ServerReady::DeploymentNotReady, "the Deployment does not exist yet");
    };
    if rollout.ready_replicas == 0 {
        return match (&rollout.failure, rollout.replicas) {
            (Some(failure), _) => of(Phase::Failed, ServerReady::DeploymentFailed, &**failure),
            (None, Some(0)) => pending(ServerReady::DeploymentNotReady, "it has no replicas"),
            (None, _) => pending(ServerReady::DeploymentNotReady, "no pod is ready"),
        };
    }
    if let Some(failure) = &rollout.failure {
        let message = format!("earlier pods serve, but the rollout fails: {failure}");
        return of(Phase::Degraded, ServerReady::DeploymentFailed, message);
    }
    of_backends(backends, left_out)
}

/// Returns the phase of a server with a ready pod.
fn of_backends(backends: &[DiscoveredBackend], left_out: &[LeftOut]) -> Readiness {
    let total = backends.len();
    let status = |backend: &DiscoveredBackend| backend.status.unwrap_or_default();
    let routable = backends.iter().filter(|backend| status(backend).is_routable()).count();
    let unknown =
        backends.iter().filter(|backend| status(backend) == BackendStatus::Unknown).count();
    if total > 0 && unknown == total {
        let message = format!("{total} backends were not checked yet");
        return pending(ServerReady::BackendsUnknown, message);
    }
    if total > 0 && routable == 0 {
        let message = format!("none of {total} backends serves");
        return of(Phase::Degraded, ServerReady::BackendsUnavailable, message);
    }
    if routable + unknown < total {
        let names = backends.iter().filter(|backend| {
            !status(backend).is_routable() && status(backend) != BackendStatus::Unknown
        });
        let names: Vec<_> = names.map(|backend| backend.name.as_str()).collect();
        let message =
            format!("{} of {total} backends do not serve: {}", names.len(), names.join(", "));
        return of(Phase::Degraded, ServerReady::BackendsDegraded, message);
    }
    if !left_out.is_empty() {
        let names: Vec<_> = left_out.iter().map(|member| member.backend.as_str()).collect();
        let message = format!("{} members are left out: {}", names.len(), names.join(", "));
        return of(Phase::Degraded, ServerReady::BackendsDegraded, message);
    }
    let message = match (total, unknown) {
        (0, _) => "a pod is ready".to_owned(),
        (_, 0) => format!("{total} backends serve"),
        _ => format!("{routable} of {total} backends serve, {unknown} were not checked yet"),
    };
    of(Phase::Ready, ServerReady::DeploymentReady, message)
}

fn pending(reason: ServerReady, message: impl Into<String>) -> Readiness {
    of(Phase::Pending, reason, message)
}

fn of(phase: Phase, reason: ServerReady, message: impl Into<String>) -> Readiness {
    Readiness { phase, ready: ConditionUpdate::new(reason, message) }
}

#[cfg(test)]
mod tests {
    use BackendStatus::{Degraded, Ready, Unauthenticated, Unavailable, Unknown};
    use vmcp_api::conversion::{LeftOutReason, MemberKind};

    use super::*;

    fn rollout(ready_replicas: i32, failure: Option<&str>) -> Rollout {
        Rollout {
            replicas: Some(1),
            current_replicas: 1,
            ready_replicas,
            failure: failure.map(Into::into),
        }
    }

    fn phase(rollout: Option<&Rollout>, statuses: &[BackendStatus]) -> (Phase, String) {
        let backends: Vec<_> = statuses
            .iter()
            .enumerate()
            .map(|(index, status)| DiscoveredBackend {
                name: format!("b{index}"),
                status: Some(*status),
                ..DiscoveredBackend::default()
            })
            .collect();
        let found = readiness(rollout, &backends, &[]);
        (found.phase, found.ready.reason)
    }

    #[test]
    fn pods_decide_first() {
        let case = |rollout: Option<Rollout>| phase(rollout.as_ref(), &[Ready]);
        assert_eq!(case(None), (Phase::Pending, "DeploymentNotReady".into()));
        assert_eq!(case(Some(rollout(0, None))), (Phase::Pending, "DeploymentNotReady".into()));
        assert_eq!(case(Some(rollout(0, Some("x")))), (Phase::Failed, "DeploymentFailed".into()));
        assert_eq!(case(Some(rollout(1, Some("x")))), (Phase::Degraded, "DeploymentFailed".into()));
        assert_eq!(case(Some(rollout(1, None))), (Phase::Ready, "DeploymentReady".into()));
    }

    #[test]
    fn backends_decide_for_ready_pods() {
        let case = |statuses: &[BackendStatus]| phase(Some(&rollout(2, None)), statuses);
        assert_eq!(case(&[]), (Phase::Ready, "DeploymentReady".into()));
        assert_eq!(case(&[Unknown, Unknown]), (Phase::Pending, "BackendsUnknown".into()));
        assert_eq!(case(&[Unavailable, Unknown]), (Phase::Degraded, "BackendsUnavailable".into()));
        assert_eq!(case(&[Degraded]), (Phase::Degraded, "BackendsUnavailable".into()));
        assert_eq!(case(&[Ready, Unavailable]), (Phase::Degraded, "BackendsDegraded".into()));
        assert_eq!(case(&[Ready, Unknown]), (Phase::Ready, "DeploymentReady".into()));
        assert_eq!(case(&[Ready, Unauthenticated]), (Phase::Ready, "DeploymentReady".into()));
    }

    #[test]
    fn left_out_member_degrades() {
        let member = LeftOut {
            backend: "b".into(),
            kind: MemberKind::Entry,
            reason: LeftOutReason::SecretPending,
            message: "no Secret".into(),
        };
        let found = readiness(Some(&rollout(1, None)), &[], &[member]);
        assert_eq!(found.phase, Phase::Degraded);
        assert_eq!(found.ready.message, "1 members are left out: b");
    }
}
