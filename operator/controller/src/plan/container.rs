//! Container of the server.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Capabilities, Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, Lifecycle,
        LifecycleHandler, ObjectFieldSelector, Probe, ResourceRequirements, SecurityContext,
        SleepAction,
    },
    apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString},
};
use vmcp_api::{conversion::Conversion, names::SERVER_PORT};

use super::{
    arguments::{PEER_PORT, arguments},
    metadata::Owner,
    shutdown::Shutdown,
    volumes::mounts,
};
use crate::Settings;

/// Name of the server's container.
pub const CONTAINER: &str = "vmcp";

/// Plans the container.
pub(super) fn container(
    owner: Owner<'_>,
    conversion: &Conversion,
    shutdown: Shutdown,
    settings: &Settings,
) -> Container {
    Container {
        name: CONTAINER.to_owned(),
        image: Some(settings.image.clone()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        args: Some(arguments(owner, conversion, shutdown, settings)),
        env: Some(environment(owner, conversion)),
        ports: Some(vec![port("http", SERVER_PORT), port("peers", PEER_PORT)]),
        volume_mounts: Some(mounts()),
        // The first response ends the start, so that the liveness probe never kills a pod that starts slowly.
        startup_probe: Some(probe("/livez", 2, 60)),
        liveness_probe: Some(probe("/livez", 10, 3)),
        readiness_probe: Some(probe("/readyz", 5, 3)),
        lifecycle: lifecycle(shutdown),
        resources: Some(resources()),
        security_context: Some(security_context()),
        ..Container::default()
    }
}

/// Returns the variables: those of the pod, then those of the conversion.
pub(super) fn environment(owner: Owner<'_>, conversion: &Conversion) -> Vec<EnvVar> {
    let mut variables = owned_environment(owner);
    variables.extend(
        conversion.environment.iter().map(|variable| literal(&variable.name, &variable.value)),
    );
    variables
}

/// Returns the variables that a pod template cannot change.
pub(super) fn owned_environment(owner: Owner<'_>) -> Vec<EnvVar> {
    vec![
        literal("VMCP_NAME", owner.name()),
        literal("VMCP_NAMESPACE", owner.namespace()),
        of_pod("POD_NAME", "metadata.name"),
        of_pod("POD_IP", "status.podIP"),
    ]
}

pub(super) fn literal(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(literal_text(value)), ..EnvVar::default() }
}

/// Returns a text that the kubelet takes as it is.
pub(super) fn literal_text(text: &str) -> String {
    // It would replace references to variables: a doubled dollar sign is one.
    text.replace("$(", "$$(")
}

fn of_pod(name: &str, path: &str) -> EnvVar {
    let field =
        ObjectFieldSelector { api_version: Some("v1".to_owned()), field_path: path.to_owned() };
    let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
    EnvVar { name: name.to_owned(), value_from: Some(source), ..EnvVar::default() }
}

fn port(name: &str, number: u16) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number.into(),
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    }
}

/// Returns a probe of a path, which the server answers under any load.
fn probe(path: &str, period: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::Int(SERVER_PORT.into()),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period),
        timeout_seconds: Some(5),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}

/// Returns the wait before the server stops. The kubelet waits, since the image has no program that could.
fn lifecycle(shutdown: Shutdown) -> Option<Lifecycle> {
    let seconds = shutdown.notice;
    let wait =
        LifecycleHandler { sleep: Some(SleepAction { seconds }), ..LifecycleHandler::default() };
    (seconds > 0).then(|| Lifecycle { pre_stop: Some(wait), ..Lifecycle::default() })
}

/// Returns the resources. The limit of CPU determines the number of event loops, that of memory the bytes that are buffered.
fn resources() -> ResourceRequirements {
    let amounts = |cpu: &str, memory: &str| {
        let amount = |name: &str, amount: &str| (name.to_owned(), Quantity(amount.to_owned()));
        Some(BTreeMap::from([amount("cpu", cpu), amount("memory", memory)]))
    };
    ResourceRequirements {
        requests: amounts("100m", "128Mi"),
        limits: amounts("1", "1Gi"),
        ..ResourceRequirements::default()
    }
}

pub(super) fn security_context() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        privileged: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        ..SecurityContext::default()
    }
}
