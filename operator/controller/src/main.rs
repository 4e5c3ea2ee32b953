//! Binary of the operator.

mod arguments;

use std::process::ExitCode;

use clap::Parser;
use kube::Client;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use vmcp_operator::{Environment, Operator};

use crate::arguments::Arguments;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt()
        .json()
        .with_writer(std::io::stderr)
        .with_max_level(arguments.log_level)
        .init();
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "operator stopped");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn std::error::Error>> {
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
