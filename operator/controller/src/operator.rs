//! The operator: watches, leader election, workers and endpoints.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::controllers::Context;
use crate::health::Endpoints;
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::stores::Stores;
use crate::webhook::{Connections, ServiceName, Webhook, WebhookContext};
use crate::worker::work;
use vmcp_lease::{Candidate, Environment, LostLeadership};

/// Objects that are reconciled at a time.
const CONCURRENCY: usize = 8;

/// Kubernetes operator of vmcp.
#[derive(Debug)]
pub struct Operator {
    settings: Settings,
    environment: Environment,
    namespaces: Vec<String>,
    identity: String,
    lease: Option<LeaseName>,
    listener: Option<TcpListener>,
    webhook: Option<Webhook>,
    metrics: Arc<Metrics>,
}

/// Lease for which replicas of the operator compete.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LeaseName {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
}

/// Leadership of this replica, as metrics and tasks see it.
struct Leadership {
    metrics: Arc<Metrics>,
    leading: watch::Sender<bool>,
}

// === impl Operator ===

impl Operator {
    /// Creates an operator for all namespaces, without leader election and endpoints.
    #[must_use]
    pub fn new(settings: Settings, environment: Environment) -> Self {
        Self {
            settings,
            environment,
            namespaces: Vec::new(),
            identity: "vmcp-operator".to_owned(),
            lease: None,
            listener: None,
            webhook: None,
            metrics: Arc::new(Metrics::new()),
        }
    }

    /// Limits the operator to some namespaces; none means all.
    #[must_use]
    pub fn namespaces(mut self, namespaces: Vec<String>) -> Self {
        self.namespaces = namespaces;
        self
    }

    /// Sets the name of this replica, that of its pod.
    #[must_use]
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = identity.into();
        self
    }

    /// Lets this replica work only while it holds a Lease.
    #[must_use]
    pub fn leader_election(mut self, lease: LeaseName) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Serves `/healthz`, `/readyz` and `/metrics` on a listener.
    #[must_use]
    pub fn endpoints(mut self, listener: TcpListener) -> Self {
        self.listener = Some(listener);
        self
    }

    /// Serves the validating webhook on connections to the Service of this name, whether this replica leads or not. The one that
    /// leads makes the certificate and configures the API server.
    #[must_use]
    pub fn webhook(mut self, service: ServiceName, connections: impl Into<Connections>) -> Self {
        self.webhook = Some(Webhook::Served(service, connections.into()));
        self
    }

    /// Deletes the configuration of a webhook that the operator served before.
    #[must_use]
    pub fn without_webhook(mut self, service: ServiceName) -> Self {
        self.webhook = Some(Webhook::Disabled(service));
        self
    }

    /// Runs the operator until `stop` ends. Reconciles that have begun end first.
    ///
    /// # Errors
    ///
    /// If this replica led, and lost the Lease. The process should end: another replica leads.
    pub async fn run(
        self,
        client: Client,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), LostLeadership> {
        let Self { settings, environment, namespaces, identity, lease, listener, webhook, metrics } =
            self;
        let client = metrics.count_requests_of(client);
        let stores = Arc::new(Stores::default());
        // Dropped at the end, which ends them.
        let mut tasks = stores.watch(&client, &namespaces, &environment);
        if let Some(listener) = listener {
            let (stores, metrics) = (Arc::clone(&stores), Arc::clone(&metrics));
            tasks.spawn(Endpoints { stores, metrics }.serve(listener));
        }
        let leading = watch::Sender::new(false);
        if let Some(webhook) = webhook {
            let context = WebhookContext {
                client: client.clone(),
                namespaces,
                environment: environment.clone(),
                settings: settings.clone(),
                metrics: Arc::clone(&metrics),
                leading: leading.subscribe(),
            };
            webhook.spawn(context, &mut tasks);
        }
        let candidate = lease.map(|LeaseName { namespace, name }| {
            let (client, environment) = (client.clone(), environment.clone());
            Candidate::new(client, &namespace, &name, identity.clone(), environment)
        });
        let context = Context::new(client, Arc::clone(&stores), environment, settings, identity);
        let leadership = Leadership { metrics, leading };
        leadership.reconcile(Arc::new(context), candidate, std::pin::pin!(stop)).await
    }
}

// === impl Leadership ===

impl Leadership {
    /// Reconciles while this replica leads, until `stop` ends.
    async fn reconcile(
        self,
        context: Arc<Context>,
        candidate: Option<Candidate>,
        mut stop: Pin<&mut (impl Future<Output = ()> + Send)>,
    ) -> Result<(), LostLeadership> {
        let Some(mut candidate) = candidate else {
            self.set(true);
            reconcile(context, Arc::clone(&self.metrics), stop).await;
            return Ok(());
        };
        tokio::select! {
            () = &mut stop => return Ok(()),
            () = candidate.acquire() => {}
        }
        self.set(true);
        let result = tokio::select! {
            lost = candidate.renew() => Err(lost),
            () = reconcile(context, Arc::clone(&self.metrics), stop) => Ok(()),
        };
        self.set(false);
        if result.is_ok() {
            candidate.release().await;
        }
        result
    }

    fn set(&self, is_leading: bool) {
        self.metrics.set_leading(is_leading);
        self.leading.send_replace(is_leading);
    }
}

/// Reconciles from the time at which all watches have listed their objects until `stop` ends.
async fn reconcile(
    context: Arc<Context>,
    metrics: Arc<Metrics>,
    mut stop: Pin<&mut (impl Future<Output = ()> + Send)>,
) {
    tokio::select! {
        () = &mut stop => return,
        () = context.stores.wait_until_listed() => {}
    }
    tracing::info!("reconciling");
    work(context, metrics, CONCURRENCY, stop).await;
}
