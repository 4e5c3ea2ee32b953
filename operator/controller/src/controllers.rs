//! Controllers: one for each kind that the operator reconciles.

pub(crate) mod composite_tool_definition;
mod embedding_server;
mod finalizer;
mod mcp_external_auth_config;
mod mcp_group;
mod mcp_oidc_config;
mod mcp_server_entry;
mod mcp_telemetry_config;
mod mcp_tool_config;
mod referrers;
pub(crate) mod shared_config;
mod transition;
pub(crate) mod virtual_mcp_server;
pub(crate) mod workload;
mod write_outcome;

use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use vmcp_api::{
    MCPExternalAuthConfig, MCPOIDCConfig, MCPRemoteProxy, MCPServer, MCPTelemetryConfig,
    MCPToolConfig,
};

use crate::apply::{Applier, ApplyError};
use crate::events::Recorder;
use crate::key::{Kind, ObjectKey};
use crate::settings::Settings;
use crate::sources::Sources;
use crate::stores::Stores;
use vmcp_lease::Environment;

/// Everything that reconciles use.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) stores: Arc<Stores>,
    pub(crate) applier: Applier,
    pub(crate) sources: Sources,
    pub(crate) recorder: Recorder,
    pub(crate) environment: Environment,
    pub(crate) settings: Settings,
}

/// Time after which an object is reconciled without a change.
pub(crate) const RESYNC_INTERVAL: Duration = Duration::from_mins(10);

/// Time until another attempt to write an object that the API server refused, or that belongs to another owner.
pub(crate) const REFUSED_INTERVAL: Duration = Duration::from_secs(30);

/// Time until an object is due again that waits for the first status of another one. That status repeats the reconcile sooner; the
/// time counts if its write fails.
pub(crate) const FIRST_STATUS_INTERVAL: Duration = Duration::from_secs(5);

// === impl Context ===

impl Context {
    pub(crate) fn new(
        client: Client,
        stores: Arc<Stores>,
        environment: Environment,
        settings: Settings,
        instance: String,
    ) -> Self {
        Self {
            applier: Applier::new(client.clone(), Arc::clone(&stores)),
            sources: Sources::new(client.clone(), Arc::clone(&stores)),
            recorder: Recorder::new(client.clone(), environment.clone(), instance),
            client,
            stores,
            environment,
            settings,
        }
    }

    /// Reconciles an object, and returns the time after which it is due again.
    pub(crate) async fn reconcile(
        &self,
        target: &ObjectKey,
    ) -> Result<Option<Duration>, ApplyError> {
        match target.kind {
            Kind::VirtualMCPServer => Box::pin(virtual_mcp_server::reconcile(self, target)).await,
            Kind::MCPGroup => mcp_group::reconcile(self, target).await,
            Kind::MCPServerEntry => mcp_server_entry::reconcile(self, target).await,
            Kind::EmbeddingServer => embedding_server::reconcile(self, target).await,
            Kind::MCPServer => workload::reconcile::<MCPServer>(self, target).await,
            Kind::MCPRemoteProxy => workload::reconcile::<MCPRemoteProxy>(self, target).await,
            Kind::MCPExternalAuthConfig => {
                shared_config::reconcile::<MCPExternalAuthConfig>(self, target).await
            }
            Kind::MCPOIDCConfig => shared_config::reconcile::<MCPOIDCConfig>(self, target).await,
            Kind::MCPTelemetryConfig => {
                shared_config::reconcile::<MCPTelemetryConfig>(self, target).await
            }
            Kind::MCPToolConfig => shared_config::reconcile::<MCPToolConfig>(self, target).await,
            Kind::VirtualMCPCompositeToolDefinition => {
                composite_tool_definition::reconcile(self, target).await
            }
            // No controller queues objects of these kinds.
            Kind::ConfigMap
            | Kind::Secret
            | Kind::ServiceAccount
            | Kind::Role
            | Kind::RoleBinding
            | Kind::Deployment
            | Kind::StatefulSet
            | Kind::Service
            | Kind::PodDisruptionBudget
            | Kind::NetworkPolicy
            | Kind::Ingress
            | Kind::HTTPRoute
            | Kind::ServiceMonitor => Ok(None),
        }
    }
}
