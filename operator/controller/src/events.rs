//! Events of Kubernetes.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::apply::{hexadecimal, within};
use crate::key::Key;
use crate::names::FIELD_MANAGER;
use vmcp_lease::Environment;

/// Maximum length of the note of an event, in bytes.
const MAX_NOTE: usize = 1_024;

/// Maximum length of the beginning of an event's name, before its random part.
const MAX_PREFIX: usize = 200;

/// Writer of events. A failure is logged alone: events inform, and nothing depends on them.
#[derive(Clone)]
pub(crate) struct Recorder {
    client: Client,
    environment: Environment,
    /// Name of the pod.
    instance: String,
}

/// Content of an event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Notice {
    pub(crate) is_warning: bool,
    pub(crate) reason: String,
    pub(crate) note: String,
}

// === impl Notice ===

impl Notice {
    pub(crate) fn normal(reason: impl Into<String>, note: impl Into<String>) -> Self {
        Self { is_warning: false, reason: reason.into(), note: note.into() }
    }

    pub(crate) fn warning(reason: impl Into<String>, note: impl Into<String>) -> Self {
        Self { is_warning: true, reason: reason.into(), note: note.into() }
    }
}

// === impl Recorder ===

impl Recorder {
    pub(crate) fn new(client: Client, environment: Environment, instance: String) -> Self {
        Self { client, environment, instance }
    }

    /// Writes an event about an object.
    pub(crate) async fn publish(&self, object: &ObjectReference, notice: Notice) {
        let namespace = object.namespace.clone().unwrap_or_default();
        let name = object.name.clone().unwrap_or_default();
        let prefix: String = name.chars().take(MAX_PREFIX).collect();
        let suffix = hexadecimal(&self.environment.random::<8>());
        let key = Key::new(&namespace, &format!("{prefix}.{suffix}"));
        let event = self.event(object, &key, notice);
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let parameters =
            PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        if let Err(error) = within("Event", &key, api.create(&parameters, &event)).await {
            tracing::warn!(object = %format!("{namespace}/{name}"), %error, "event lost");
        }
    }

    fn event(&self, object: &ObjectReference, key: &Key, notice: Notice) -> Event {
        let Notice { is_warning, reason, mut note } = notice;
        note.truncate(note.floor_char_boundary(MAX_NOTE));
        let type_ = if is_warning { "Warning" } else { "Normal" };
        Event {
            metadata: ObjectMeta {
                name: Some(key.name.to_string()),
                namespace: Some(key.namespace.to_string()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(self.environment.now())),
            action: Some("Reconcile".to_owned()),
            reason: Some(reason),
            note: Some(note),
            regarding: Some(object.clone()),
            reporting_controller: Some("vmcp.dev/operator".to_owned()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(type_.to_owned()),
            ..Event::default()
        }
    }
}
