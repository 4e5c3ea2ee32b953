//! Stands for the cluster in a program without the feature `kubernetes`. No value of these types exists.

use std::path::Path;

use crate::parts::DiscoveredBackends;
use crate::reloads::DiscoveryStatus;
use crate::virtual_server::{ClusterError, NoKubernetesError, VirtualServer};

/// Access to the cluster.
#[derive(Debug)]
pub(crate) enum Cluster {}

/// Discovery of backends.
#[derive(Debug)]
pub(crate) enum Discovery {}

impl Cluster {
    #[expect(clippy::unused_async, reason = "the signature is that of the other module")]
    pub(crate) async fn connect(_: &VirtualServer, _: Option<&Path>) -> Result<Self, ClusterError> {
        Err(NoKubernetesError.into())
    }

    pub(crate) fn discover(&self) -> Discovery {
        match *self {}
    }
}

impl Discovery {
    #[expect(clippy::unused_async, reason = "the signature is that of the other module")]
    pub(crate) async fn changed(&mut self) {
        match *self {}
    }

    pub(crate) fn take(&mut self) -> (Option<DiscoveredBackends>, DiscoveryStatus) {
        match *self {}
    }
}
