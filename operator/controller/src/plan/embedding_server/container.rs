//! Container of an embedding server.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{
        Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, Probe, ResourceRequirements,
        SecretKeySelector, VolumeMount,
    },
    apimachinery::pkg::{api::resource::Quantity, util::intstr::IntOrString},
};
use vmcp_api::{
    EmbeddingServer, ImagePullPolicy, ResourceList, ResourceRequirements as Amounts, SecretRef,
};

use super::CACHE_VOLUME;
use crate::plan::container::{literal, literal_text, security_context};

/// Name of the server's container.
pub(super) const CONTAINER: &str = "embedding";

/// Volume for temporary files.
pub(super) const SCRATCH_VOLUME: &str = "tmp";

/// Directory of the model.
const CACHE_PATH: &str = "/data";

/// Writable directory.
const SCRATCH_PATH: &str = "/tmp";

/// Plans the container.
pub(super) fn container(server: &EmbeddingServer) -> Container {
    let spec = &server.spec;
    let mut arguments =
        vec![format!("--model-id={}", literal_text(&spec.model)), format!("--port={}", spec.port)];
    arguments.extend(spec.args.iter().cloned());
    Container {
        name: CONTAINER.to_owned(),
        image: Some(spec.image.clone()),
        image_pull_policy: Some(pull_policy(spec.image_pull_policy).to_owned()),
        args: Some(arguments),
        env: Some(environment(server)),
        ports: Some(vec![ContainerPort {
            name: Some("http".to_owned()),
            container_port: spec.port,
            protocol: Some("TCP".to_owned()),
            ..ContainerPort::default()
        }]),
        volume_mounts: Some(vec![
            mount(CACHE_VOLUME, CACHE_PATH),
            mount(SCRATCH_VOLUME, SCRATCH_PATH),
        ]),
        // The server listens when it has the model: half an hour to download it, and no restart until then.
        startup_probe: Some(probe(spec.port, 10, 5, 180)),
        liveness_probe: Some(probe(spec.port, 30, 10, 3)),
        readiness_probe: Some(probe(spec.port, 10, 5, 3)),
        resources: spec.resources.as_ref().map(resources),
        security_context: Some(security_context()),
        ..Container::default()
    }
}

fn pull_policy(policy: ImagePullPolicy) -> &'static str {
    match policy {
        ImagePullPolicy::Always => "Always",
        ImagePullPolicy::Never => "Never",
        ImagePullPolicy::IfNotPresent => "IfNotPresent",
    }
}

/// Returns the variables. One of the spec takes the place of a generated one.
fn environment(server: &EmbeddingServer) -> Vec<EnvVar> {
    let spec = &server.spec;
    let mut variables = vec![literal("HF_HOME", CACHE_PATH), literal("HOME", SCRATCH_PATH)];
    variables.extend(spec.hf_token_secret_ref.as_ref().map(token));
    variables.retain(|variable| spec.env.iter().all(|own| own.name != variable.name));
    variables.extend(spec.env.iter().map(|own| literal(&own.name, &own.value)));
    variables
}

fn token(reference: &SecretRef) -> EnvVar {
    let SecretRef { name, key } = reference;
    let selector = SecretKeySelector { name: name.clone(), key: key.clone(), optional: None };
    let source = EnvVarSource { secret_key_ref: Some(selector), ..EnvVarSource::default() };
    EnvVar { name: "HF_TOKEN".to_owned(), value_from: Some(source), ..EnvVar::default() }
}

fn mount(volume: &str, path: &str) -> VolumeMount {
    VolumeMount { name: volume.to_owned(), mount_path: path.to_owned(), ..VolumeMount::default() }
}

fn probe(port: i32, period: i32, timeout: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some("/health".to_owned()),
            port: IntOrString::Int(port),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period),
        timeout_seconds: Some(timeout),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}

fn resources(resources: &Amounts) -> ResourceRequirements {
    let Amounts { limits, requests } = resources;
    ResourceRequirements {
        limits: limits.as_ref().and_then(amounts),
        requests: requests.as_ref().and_then(amounts),
        ..ResourceRequirements::default()
    }
}

fn amounts(list: &ResourceList) -> Option<BTreeMap<String, Quantity>> {
    let ResourceList { cpu, memory } = list;
    let named = [("cpu", cpu), ("memory", memory)].into_iter();
    let amounts = named
        .filter_map(|(name, amount)| Some((name.to_owned(), Quantity(amount.clone()?))))
        .collect::<BTreeMap<_, _>>();
    (!amounts.is_empty()).then_some(amounts)
}
