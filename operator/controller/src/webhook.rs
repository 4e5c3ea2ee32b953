//! Validating webhook: what neither the schemas nor their rules can validate is refused at `kubectl apply`.
//!
//! Each replica serves the webhook. The one that leads keeps the certificates and the configuration in the cluster.

mod certificate;
mod certificate_set;
mod configuration;
mod connections;
mod listener;
mod reconciler;
mod review;
mod secret;
mod validator;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use vmcp_lease::Environment;

use self::configuration::Configuration;
pub use self::connections::{Connection, Connections};
use self::listener::Listener;
use self::reconciler::{Reconciler, remove_configuration};
use crate::metrics::Metrics;
use crate::settings::Settings;

/// Label of the Secret and of the configuration, with the name of the configuration.
const LABEL: &str = "vmcp.dev/webhook";

/// Maximum length of the value of a label.
const MAX_LABEL: usize = 63;

/// Service by which the API server reaches the webhook.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServiceName {
    /// Namespace of the Service, which is that of the operator.
    pub namespace: String,
    /// Name of the Service.
    pub name: String,
}

/// Webhook of an operator.
#[derive(Debug)]
pub(crate) enum Webhook {
    /// It is served.
    Served(ServiceName, Connections),
    /// It is not served, and its configuration is deleted.
    Disabled(ServiceName),
}

/// Parts of the operator that the webhook uses.
pub(crate) struct WebhookContext {
    pub(crate) client: Client,
    pub(crate) namespaces: Vec<String>,
    pub(crate) environment: Environment,
    pub(crate) settings: Settings,
    pub(crate) metrics: Arc<Metrics>,
    /// `true` while this replica leads.
    pub(crate) leading: watch::Receiver<bool>,
}

// === impl Webhook ===

impl Webhook {
    /// Adds the tasks of the webhook, which run until they are dropped.
    pub(crate) fn spawn(self, context: WebhookContext, tasks: &mut JoinSet<()>) {
        let WebhookContext { client, namespaces, environment, settings, metrics, leading } =
            context;
        match self {
            Self::Served(service, connections) => {
                let reconciler = Reconciler::new(
                    &client,
                    service,
                    namespaces,
                    environment,
                    Arc::clone(&metrics),
                    leading,
                );
                let listener = Listener::new(reconciler.tls.subscribe(), settings, metrics);
                tasks.spawn(listener.serve(connections));
                tasks.spawn(reconciler.run());
            }
            Self::Disabled(service) => {
                let configuration = Configuration::new(client, service, namespaces);
                tasks.spawn(remove_configuration(configuration, environment, leading));
            }
        }
    }
}

// === impl ServiceName ===

impl ServiceName {
    /// Returns the name that the certificate is for.
    fn dns_name(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// Returns the name of the configuration, which no other installation in the cluster has.
    fn configuration_name(&self) -> String {
        format!("{}.{}", self.name, self.namespace)
    }
}

fn labels(service: &ServiceName) -> BTreeMap<String, String> {
    let mut name = service.configuration_name();
    if name.len() > MAX_LABEL {
        name.truncate(MAX_LABEL);
        // A value ends with a letter or a digit.
        name.truncate(name.trim_end_matches(['-', '.']).len());
    }
    BTreeMap::from([
        ("app.kubernetes.io/part-of".to_owned(), "vmcp".to_owned()),
        (LABEL.to_owned(), name),
    ])
}

/// Returns whether an object is one of the webhook of a Service.
fn is_own(metadata: &ObjectMeta, service: &ServiceName) -> bool {
    let found = metadata.labels.as_ref().and_then(|labels| labels.get(LABEL));
    found.is_some() && found == labels(service).get(LABEL)
}
