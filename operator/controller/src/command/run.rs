//! `vmcp-operator run`.

mod arguments;

use std::process::ExitCode;

use kube::Client;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use vmcp_operator::{Environment, Operator};

pub(crate) use self::arguments::RunArgs;

/// Error of an operator outside of a pod that is to serve the webhook.
const NO_NAMESPACE: &str = "failed to serve the webhook: the API server reaches it by a Service in the namespace of the operator, which is not known; set POD_NAMESPACE, or add --no-webhook";

impl RunArgs {
    /// Runs the operator until a signal ends it.
    pub(crate) fn run(self) -> ExitCode {
        tracing_subscriber::fmt()
            .json()
            .with_writer(std::io::stderr)
            .with_max_level(self.log_level)
            .init();
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let result = match runtime {
            Ok(runtime) => runtime.block_on(operate(self)),
            Err(error) => Err(error.into()),
        };
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!(%error, "operator stopped");
                ExitCode::FAILURE
            }
        }
    }
}

async fn operate(arguments: RunArgs) -> Result<(), Box<dyn std::error::Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let client = Client::try_default().await?;
    let listener = TcpListener::bind(arguments.listen).await?;
    tracing::info!(address = %listener.local_addr()?, "endpoints listen");
    let is_openshift = match arguments.openshift {
        Some(is_openshift) => is_openshift,
        None => has_openshift_routes(&client).await?,
    };
    let mut operator = Operator::new(arguments.settings(is_openshift), Environment::system()?)
        .namespaces(arguments.namespaces())
        .identity(arguments.identity())
        .endpoints(listener);
    operator = match arguments.webhook_service() {
        Some(service) if arguments.no_webhook => operator.without_webhook(service),
        Some(service) => {
            let listener = TcpListener::bind(arguments.webhook_listen).await?;
            tracing::info!(webhook = %listener.local_addr()?, "webhook listens");
            operator.webhook(service, listener)
        }
        // Outside of a cluster, the operator has no configuration to delete.
        None if arguments.no_webhook => operator,
        None => return Err(NO_NAMESPACE.into()),
    };
    if let Some(lease) = arguments.lease() {
        operator = operator.leader_election(lease);
    }
    operator.run(client, stop).await?;
    Ok(())
}

/// Returns whether the cluster is one of OpenShift, which assigns the users of pods.
async fn has_openshift_routes(client: &Client) -> kube::Result<bool> {
    let groups = client.list_api_groups().await?;
    Ok(groups.groups.iter().any(|group| group.name == "route.openshift.io"))
}
