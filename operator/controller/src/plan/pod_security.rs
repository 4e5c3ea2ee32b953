//! Security context of pods, which also a restricted namespace accepts.

use k8s_openapi::api::core::v1::{PodSecurityContext, SeccompProfile};

use crate::Settings;

/// User and group of the processes, and group of the volumes.
const USER: i64 = 1000;

/// Returns the security context of the pods of a server.
pub(super) fn pod_security_context(settings: &Settings) -> PodSecurityContext {
    // OpenShift assigns the user and the groups, and refuses others.
    let user = (!settings.is_openshift).then_some(USER);
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: user,
        run_as_group: user,
        fs_group: user,
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            ..SeccompProfile::default()
        }),
        ..PodSecurityContext::default()
    }
}
