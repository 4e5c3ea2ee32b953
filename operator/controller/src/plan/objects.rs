//! Objects of a plan in the order in which they are applied.

use serde::Serialize;
use serde_json::Value;

use super::{Access, EmbeddingPlan, OptionalObjects, Plan};

impl Plan {
    /// Returns all objects in the order in which the operator applies them: each finds what it refers to.
    #[must_use]
    pub fn into_objects(self) -> Vec<Value> {
        let Self {
            access,
            seal_secret,
            owned_secret,
            config_map,
            deployment,
            service,
            peer_service,
            status_lease,
            optional,
        } = self;
        let mut objects = Vec::new();
        if let Some(Access { service_account, role, role_binding }) = &access {
            objects.extend([value(service_account), value(role), value(role_binding)]);
        }
        objects.extend([
            value(&seal_secret),
            value(&owned_secret),
            value(&config_map),
            value(&peer_service),
            value(&service),
            value(&deployment),
            value(&status_lease),
        ]);
        objects.extend(optional.into_objects());
        objects
    }
}

impl OptionalObjects {
    /// Returns the objects in the order in which the operator applies them.
    pub fn into_objects(self) -> impl Iterator<Item = Value> {
        let Self { disruption_budget, network_policy, ingress, http_route, service_monitor } = self;
        [
            disruption_budget.as_ref().map(value),
            network_policy.as_ref().map(value),
            ingress.as_ref().map(value),
            http_route.as_ref().map(value),
            service_monitor.as_ref().map(value),
        ]
        .into_iter()
        .flatten()
    }
}

impl EmbeddingPlan {
    /// Returns all objects in the order in which the operator applies them.
    #[must_use]
    pub fn into_objects(self) -> Vec<Value> {
        let Self { stateful_set, service } = self;
        vec![value(&service), value(&stateful_set)]
    }
}

fn value(object: &impl Serialize) -> Value {
    serde_json::to_value(object).expect("an object of Kubernetes is JSON")
}
