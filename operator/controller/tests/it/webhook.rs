//! Validating webhook: what it refuses, its certificates, and its configuration.

mod certificates;
mod configuration;
mod refusals;
mod requests;

use std::time::Duration;

use futures_util::stream;
use kube::Error;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use vmcp_operator::{Connections, LeaseName, ServiceName};

use super::support::{Cluster, server};

/// Namespace and name of the Service.
const SERVICE: (&str, &str) = ("default", "vmcp-operator-webhook");

fn service() -> ServiceName {
    ServiceName { namespace: SERVICE.0.to_owned(), name: SERVICE.1.to_owned() }
}

/// Returns the connections that clients make with the sender.
fn connections() -> (mpsc::Sender<DuplexStream>, Connections) {
    let (sender, receiver) = mpsc::channel(8);
    let accepted = stream::unfold(receiver, async |mut receiver| {
        let connection: DuplexStream = receiver.recv().await?;
        Some((Ok(connection), receiver))
    });
    (sender, Connections::new(accepted))
}

/// Returns connections of clients that never come.
pub(super) fn no_connections() -> Connections {
    connections().1
}

/// Leads the calls of the API server to a replica.
fn route(cluster: &Cluster, to: &mpsc::Sender<DuplexStream>) {
    cluster.server.route_service_in_memory(SERVICE.0, SERVICE.1, to.clone());
}

/// Starts a replica, and returns the way to its webhook.
fn start_replica(cluster: &mut Cluster, identity: &str) -> mpsc::Sender<DuplexStream> {
    let (sender, connections) = connections();
    let lease = LeaseName { namespace: "default".to_owned(), name: "leader".to_owned() };
    let identity = identity.to_owned();
    cluster.start_operator(|operator| {
        operator.leader_election(lease).identity(identity).webhook(service(), connections)
    });
    sender
}

/// Creates a cluster with an operator that serves the webhook, and a ready group.
async fn with_webhook() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.put_group();
    let (sender, connections) = connections();
    route(&cluster, &sender);
    cluster.start_operator(|operator| operator.webhook(service(), connections));
    cluster.settle().await;
    cluster.take_writes();
    cluster
}

fn secret(cluster: &Cluster) -> Option<Value> {
    cluster.find("Secret", "vmcp-operator-webhook-certificate")
}

/// Returns a server with a policy that Cedar refuses.
fn with_bad_policy(name: &str) -> Value {
    server(name, |spec| {
        spec["incomingAuth"]["authzConfig"] =
            json!({"type": "inline", "inline": {"policies": ["permit("]}});
    })
}

async fn create(cluster: &Cluster, object: &Value) -> Result<DynamicObject, Error> {
    let kind = object["kind"].as_str().unwrap();
    let object = serde_json::from_value(object.clone()).unwrap();
    cluster.api(kind).create(&PostParams::default(), &object).await
}

async fn patch(cluster: &Cluster, kind: &str, patch: Value) -> Result<DynamicObject, Error> {
    cluster.api(kind).patch("a", &PatchParams::default(), &Patch::Merge(patch)).await
}

/// Returns the message of a refused request.
fn refusal(result: Result<DynamicObject, Error>) -> String {
    match result {
        Err(Error::Api(status)) => {
            assert_eq!((status.code, &*status.reason), (403, "Forbidden"), "{}", status.message);
            status.message.clone()
        }
        other => panic!("{other:?}"),
    }
}

/// Returns whether the webhook refuses a server: its certificate is trusted, and it responds.
async fn refuses(cluster: &Cluster) -> bool {
    create(cluster, &with_bad_policy("probe")).await.is_err()
}
